"""One stage at work: its log, its lock, and a process of its own if wanted."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from npda.io.errors import InputError
from npda.io.locks import Lock
from npda.stages.plan import LOG, StageLog, Step


def perform(step: Step, needs: Mapping[str, Path], resumed: bool) -> str:
    """Do the work with everything it says going to its log; what went wrong in a line, or nothing."""
    step.directory.mkdir(parents=True, exist_ok=True)
    step.begin()
    log = StageLog(step.directory / LOG)
    start = time.monotonic()
    with _caught(log.path):
        log(f"{step.name}: {'taken up again' if resumed else 'begun'}")
        try:
            step.stage.work(step.directory, needs, log)
        except KeyboardInterrupt:
            log("interrupted")
            raise
        except (Exception, SystemExit) as error:
            log("failed\n" + traceback.format_exc())
            return _line(error)
        log("done")
        step.finish(time.monotonic() - start, resumed, needs)
    return ""


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


@contextlib.contextmanager
def _caught(path: Path) -> Iterator[None]:
    """Whatever this process says goes to a file: output, errors, logging, warnings."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    with path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1) as file, _descriptors(file.fileno()):

        def show(message, category, filename, lineno, file_=None, line=None) -> None:
            file.write(warnings.formatwarning(message, category, filename, lineno, line))

        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file), warnings.catch_warnings():
            warnings.showwarning = show
            root.handlers = [handler]
            root.setLevel(min(level, logging.INFO))
            try:
                yield
            finally:
                root.handlers = handlers
                root.setLevel(level)


@contextlib.contextmanager
def _descriptors(target: int) -> Iterator[None]:
    """Lead descriptors 1 and 2 elsewhere: libraries in C and handlers made earlier go past sys.stdout."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for number, before in enumerate(saved, start=1):
            os.dup2(before, number)
            os.close(before)


class Child:
    """A stage at work in a forked process, which ends when this one does."""

    def __init__(self, step: Step, needs: Mapping[str, Path], resumed: bool, lock: Lock) -> None:
        """lock: of the stage, given back when the process has ended"""
        self.step, self.resumed = step, resumed
        self._lock = lock
        self._start = time.monotonic()
        context = multiprocessing.get_context("fork")
        self._answer, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_child, args=(step, needs, resumed, sender, os.getpid()))
        self._process.start()
        sender.close()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def result(self) -> tuple[str, float]:
        """Of a process that has ended: what went wrong in a line, or nothing; seconds."""
        seconds = time.monotonic() - self._start
        self._process.join()
        try:
            # A process it has left behind may hold the other end open, so there may be no end to read.
            reason = self._answer.recv_bytes().decode() if self._answer.poll() else _ending(self._process.exitcode)
        except EOFError:
            reason = _ending(self._process.exitcode)
        self._answer.close()
        self._lock.release()
        return reason, seconds

    def end(self) -> None:
        """At once: what it has written so far is found again."""
        self._process.kill()
        self._process.join()
        self._lock.release()


def _child(step: Step, needs: Mapping[str, Path], resumed: bool, sender: Connection, parent: int) -> None:
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    try:
        sender.send_bytes(perform(step, needs, resumed).encode(errors="backslashreplace"))
    except KeyboardInterrupt:
        sys.exit(130)


def _follow(parent: int) -> None:
    """Exit when the parent process dies."""
    while os.getppid() == parent:
        time.sleep(0.3)
    os._exit(1)


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"its process ended early with exit code {code}"
    hint = "; was there enough memory?" if -code == signal.SIGKILL else ""
    return f"its process was ended by {signal.Signals(-code).name}{hint}"


def clear(step: Step, waits: Callable[[], None]) -> None:
    """Remove a stage's directory once no process works in it; waits: called if one does"""
    lock = Lock(step.lock)
    if not lock.acquire():
        waits()
        lock.acquire(wait=True)
    try:
        remove(step.directory)
    finally:
        lock.release()


def remove(directory: Path) -> None:
    """Remove a directory so that no other process finds half of it."""
    if directory.exists():
        remains = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}")
        os.rename(directory, remains)
        shutil.rmtree(remains, ignore_errors=True)
