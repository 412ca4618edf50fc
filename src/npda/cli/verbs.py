"""What happens around every verb: its numbers are checked, and whatever ends it early becomes a sentence and a code."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from typing import Any

from typer.core import TyperCommand, TyperGroup

from npda.io import limits
from npda.io.errors import InputError, sentence
from npda.io.terminal import printable

DONE, WRONG, INTERRUPTED, TERMINATED = 0, 2, 130, 143

# Options by the names of their parameters; all others must be finite, and keep to the range in their help.
RANGES = {
    "k": limits.K,
    "lambda_": limits.LAMBDA,
    "temperature": limits.TEMPERATURE,
    "beam": limits.BEAM,
    "n_best": limits.BEAM,
    "length_penalty": limits.LENGTH_PENALTY,
    "max_length": limits.MAX_LENGTH,
    "nprobe": limits.NPROBE,
    "rerank": limits.RERANK,
    "dim": limits.DIM,
}
_NAMES = {WRONG: "wrong_input", INTERRUPTED: "interrupted", TERMINATED: "terminated"}

logger = logging.getLogger(__name__)


class Terminated(KeyboardInterrupt):
    """Somebody, or the system, has asked the process to end."""


class Ended(Exception):
    """A verb that has ended early. code: of the process"""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Verb(TyperCommand):
    """A command whose numbers are checked before it does anything."""

    def invoke(self, ctx: Any) -> Any:
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                within = RANGES.get(str(parameter.name), limits.ANY)
                if value not in within:
                    raise InputError(f"{max(parameter.opts, key=len)} takes a number {within}, not {value}.")
        return super().invoke(ctx)


class Verbs(TyperGroup):
    """All of them. What typer would turn into exit codes of its own is caught before it does."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _ending():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _ending():
            return super().invoke(ctx)


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    try:
        yield
    except Terminated:
        raise Ended(TERMINATED, "terminated; what was finished is kept.") from None
    except KeyboardInterrupt:
        raise Ended(INTERRUPTED, "interrupted; what was finished is kept.") from None
    except BrokenPipeError:  # `npda … | head`
        raise Ended(DONE, "") from None
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # so says rich
            raise Ended(DONE, "") from None
        raise


def run(app: Callable[..., Any], arguments: Sequence[str] | None = None) -> int:
    """Run a command line to its end, and say in a sentence if it was not the one that was wanted. → its exit code

    With --json the sentence is also an object on standard output: {"error": {"code", "exit", "message"}}.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # file names need not be UTF-8
    with _terminable():
        try:
            code = app(given, standalone_mode=False) or DONE
            sys.stdout.flush()
            return code if isinstance(code, int) else DONE
        except Ended as ended:
            code, message = ended.code, str(ended)
        except InputError as error:
            code, message = WRONG, str(error)
        except BrokenPipeError:  # of what was printed last
            code, message = DONE, ""
        except Exception as error:
            if hasattr(error, "format_message") and hasattr(error, "exit_code"):
                return _usage(error, given)
            message = sentence(error)
            if message is None:
                raise
            logger.info("this is where it happened", exc_info=True)
            code = WRONG
    if code == DONE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    print(f"npda: {printable(message)}", file=sys.stderr)
    _tell(given, code, message)
    return code


def _tell(given: Sequence[str], code: int, message: str, name: str | None = None) -> None:
    """The error for a program, if it was a program that asked."""
    options = given[: given.index("--")] if "--" in given else given
    if "--json" in options:
        with contextlib.suppress(BrokenPipeError):
            error = {"code": name or _NAMES[code], "exit": code, "message": message}
            print(json.dumps({"error": error}), flush=True)


def _usage(error: Any, given: Sequence[str]) -> int:
    """A command that was spelt wrongly, shown as typer shows it."""
    from typer import rich_utils

    if error.format_message():  # a bare `npda` has shown its help already
        rich_utils.rich_format_error(error)
        _tell(given, error.exit_code, printable(error.format_message()), "usage")
    return error.exit_code


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a verb as Ctrl-C does; processes that it forks are ended by it as ever."""
    own = os.getpid()

    def end(number: int, frame: object) -> None:
        if os.getpid() != own:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
