"""Locks between processes, on a file or a folder.

`filelock` locks the descriptor itself, so a folder needs no lock file inside it. The system releases a lock when the
last process that holds it ends, however it ends. A forked process inherits the lock: whoever is killed leaves it to
those still at work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from npda.io.errors import InputError


class Lock:
    """A lock on a folder, or on a file, which is created if it is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, wait: bool = False) -> bool:
        """Take the lock; False if another process holds it and we do not wait."""
        if self.path.is_dir():
            descriptor = os.open(self.path, os.O_RDONLY)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            taken = lock_descriptor(descriptor, blocking=wait)
        except BaseException:
            os.close(descriptor)
            raise
        if taken:
            self._descriptor = descriptor
        else:
            os.close(descriptor)
        return taken

    def release(self) -> None:
        """Give the lock back, also on behalf of forked processes that still have it open."""
        if self._descriptor is not None:
            unlock_descriptor(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def locked(path: Path, otherwise: str | None = None) -> Iterator[None]:
    """Keep other processes out; otherwise: the sentence for whoever comes second"""
    lock = Lock(path)
    if not lock.acquire():
        raise InputError(otherwise or f"Another process is working on {path}: wait for it to finish.")
    try:
        yield
    finally:
        lock.release()
