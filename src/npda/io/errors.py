"""The one exception for faults in what comes from outside, and what the system says, as a sentence."""

from __future__ import annotations

import errno
import os

# Of the machine, not of the program. Everything else that the system may say is a fault of ours.
_DISK = {
    errno.ENOSPC: "the disk is full: make room, or write elsewhere",
    errno.EDQUOT: "the quota is used up: make room, or write elsewhere",
    errno.EFBIG: "the disk takes no file so large: write elsewhere",
    errno.EROFS: "the disk is read-only: write elsewhere",
    errno.EACCES: "permission denied: choose a place of your own, or have it opened to you",
    errno.EPERM: "permission denied: choose a place of your own, or have it opened to you",
    errno.EIO: "the disk has failed: write elsewhere, and look after the disk",
    errno.ENAMETOOLONG: "the name is too long: choose one of at most 255 bytes",
    errno.ENOTDIR: "a part of the path is a file and no folder: choose another place",
    errno.EISDIR: "it is a folder: name a file",
    errno.EEXIST: "a file of this name is there already: choose another place",
    errno.ENOENT: "it does not exist: check the path",
    errno.ELOOP: "links go in a circle: name the file itself",
    errno.EMFILE: "too many files are open: raise the limit with `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine: try again later",
    errno.ENOMEM: "there is not enough memory: use a smaller input, or a larger machine",
}
# Libraries in other languages hand on the system's words, not its number.
_SAID = {code: (os.strerror(code), f"(os error {code})", f"code: {code},") for code in _DISK}


class InputError(Exception):
    """A fault in a file, an option or a request; its text is one sentence for the person who can fix it.

    The command line prints the sentence and exits with code 2; nothing has been written by then.
    """


def disk_fault(error: BaseException) -> str | None:
    """What the system has refused, and what to do, whichever library passes it on; None if it is something else."""
    if isinstance(error, OSError) and error.errno is not None:
        return _DISK.get(error.errno)
    if isinstance(error, MemoryError):
        return _DISK[errno.ENOMEM]
    text = str(error)
    if isinstance(error, OSError) and "requested and" in text and "written" in text:  # NumPy, of a full disk
        return _DISK[errno.ENOSPC]
    return next((_DISK[code] for code, said in _SAID.items() if any(words in text for words in said)), None)


def sentence(error: BaseException) -> str | None:
    """One sentence for what is nobody's mistake but the machine's; None for a fault of the program."""
    fault = disk_fault(error)
    if fault is None:
        return None
    names = [name for name in (getattr(error, "filename2", None), getattr(error, "filename", None)) if name]
    return f"{os.fsdecode(names[0])}: {fault}." if names else f"{fault[0].upper()}{fault[1:]}."
