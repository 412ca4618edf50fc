"""A command line in a forked process: nothing is imported again, and nothing that it does to itself stays."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npda.cli import app
from npda.cli.verbs import run
from tests.faults.verdicts import REFUSED, WORKED, Found, Verdict

CPU = 60  # seconds of processor time after which a command hangs
PATIENCE = 300.0  # seconds by the clock, in case it sleeps

_SENTENCE = re.compile(r"^npda: \S.*|^│ .*│$", re.MULTILINE)  # ours, or typer's box
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x9b]")


@dataclass(frozen=True)
class Ended:
    """How a process ended. code: None if it hung, negative if a signal ended it"""

    code: int | None
    output: str
    errors: str
    seconds: float  # of processor time

    @property
    def words(self) -> str:
        """The end of what it said."""
        return f"exit code {self.code}: {(self.errors or self.output).strip()[-1500:]}"


def forked(work: Callable[[], int], cwd: Path | None = None, stdin: Path | None = None) -> Ended:
    """Do something in a process of its own. → how that ended"""
    return together([work], cwd, stdin)[0]


def together(works: Sequence[Callable[[], int]], cwd: Path | None = None, stdin: Path | None = None) -> list[Ended]:
    """Do several things at once, each in a process of its own. What they say comes through pipes: no disk is asked."""
    with selectors.DefaultSelector() as selector:
        children = []
        for work in works:
            (output, theirs), (errors, their_errors) = os.pipe(), os.pipe()
            children.append((begin(work, cwd, stdin, theirs, their_errors), output, errors))
            for end in (theirs, their_errors):
                os.close(end)
            for end in (output, errors):
                selector.register(end, selectors.EVENT_READ)
        said = {end: b"" for _, *ends in children for end in ends}
        deadline = time.monotonic() + PATIENCE
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 1 << 16)
                said[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
        ended = []
        for child, *ends in children:
            code, seconds = wait(child, max(1.0, deadline - time.monotonic()))
            texts = [said[end].decode(errors="backslashreplace") for end in ends]
            ended.append(Ended(code, texts[0], texts[1], seconds))
            for end in ends:
                os.close(end)
        return ended


def begin(
    work: Callable[[], int], cwd: Path | None = None, stdin: Path | None = None, output: int = 1, errors: int = 2
) -> int:
    """Fork. → the process"""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(stdin or os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (until the process ends)
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
        if cwd is not None:
            os.chdir(cwd)
        code = work()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(child: int, patience: float = PATIENCE) -> tuple[int | None, float]:
    """→ exit code, as in ``Ended``, and seconds of processor time"""
    deadline = time.monotonic() + patience
    pause = 0.001
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return (None if code == -signal.SIGXCPU else code), usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, patience
        time.sleep(pause)
        pause = min(0.02, 1.5 * pause)


def npda(
    arguments: list[str], before: Callable[[], object] | None = None, cwd: Path | None = None, stdin: Path | None = None
) -> Ended:
    """Run a command line. before: what is done to the process first"""

    def work() -> int:
        if before is not None:
            before()
        return run(app, arguments)

    return forked(work, cwd, stdin)


def judged(ended: Ended, must_refuse: bool = False, codes: tuple[int, ...] = (0,)) -> Found:
    """Whether it worked or was refused as it should be. codes: of what worked"""
    said = ended.words
    if ended.code is None:
        return Found(Verdict.HANG, said)
    if ended.code not in (*codes, 2) or "Traceback (most recent" in ended.errors:
        return Found(Verdict.TRACEBACK, said)
    if _CONTROL.search(ended.errors) or _CONTROL.search(ended.output):
        return Found(Verdict.SILENT, f"control characters reach the terminal; {said!r}")
    if ended.code == 2:
        return REFUSED if _SENTENCE.search(ended.errors) else Found(Verdict.TRACEBACK, f"no sentence; {said}")
    return Found(Verdict.SILENT, f"it was accepted; {said}") if must_refuse else WORKED


def snapshot(folder: Path) -> dict[str, str]:
    """Every file and folder in it, with a digest of its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode(errors="backslashreplace")
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder"
    return found


def changes(before: dict[str, str], after: dict[str, str]) -> str:
    """What is no longer as it was, in words; "" if all is."""
    parts = {
        "gone": before.keys() - after.keys(),
        "new": after.keys() - before.keys(),
        "changed": {name for name in before.keys() & after.keys() if before[name] != after[name]},
    }
    return "; ".join(f"{kind}: {', '.join(sorted(names)[:5])}" for kind, names in parts.items() if names)
