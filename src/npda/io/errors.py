"""The one exception for faults in what comes from outside."""


class InputError(Exception):
    """A fault in a file, an option or a request; its text is one sentence for the person who can fix it.

    The command line prints the sentence and exits with code 2; nothing has been written by then.
    """
