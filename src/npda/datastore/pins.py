"""Readers pin the version of a store that they have opened; its files are removed when its last reader has closed it.

A reader holds a shared lock on the very datastore.json that it has read. Whoever replaces that file gives the old one
another name first if it is being read, and removes nothing that any such file names. The system takes a lock back when
its process ends, however it ends. Where a disk knows no locks, readers are not protected.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import weakref
from collections.abc import Iterator
from pathlib import Path

from npda.datastore.format import INFO, StoreInfo, parse_info, read_info, write_info
from npda.io.errors import InputError

_HELD = ".held-"
_TRIES = 100  # to open a store that is replaced all the time


class Pin:
    """Keeps a version of a store on the disk for as long as it is held."""

    def __init__(self, descriptor: int) -> None:
        self._release = weakref.finalize(self, os.close, descriptor)

    def release(self) -> None:
        self._release()


def open_pinned(store: Path) -> tuple[StoreInfo, Pin]:
    """The present version of a store, which stays on the disk until the pin is released or forgotten."""
    path = store / INFO
    for _ in range(_TRIES):
        if not path.is_file():
            break
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            pin = Pin(descriptor)
            with contextlib.suppress(OSError):  # a disk without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.fstat(descriptor).st_ino != path.stat().st_ino:
                continue  # replaced before it was pinned
            with open(descriptor, "rb", closefd=False) as file:
                return parse_info(path, file.read()), pin
    return read_info(store), Pin(os.open(os.devnull, os.O_RDONLY))


def replace_info(store: Path, info: StoreInfo) -> None:
    """Write ``datastore.json``: the moment at which a change of the store happens. The old one stays if it is read."""
    path = store / INFO
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        write_info(store, info)
        return
    try:
        # Nobody can pin the old one from here on until it is the old one.
        if not _nobody_else(descriptor):
            os.link(path, store / f"{_HELD}{secrets.token_hex(8)}.json")
        write_info(store, info)
    finally:
        os.close(descriptor)


def held_versions(store: Path) -> Iterator[StoreInfo]:
    """Earlier versions that are still being read; the files of others are removed."""
    for path in store.glob(f"{_HELD}*.json"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if _nobody_else(descriptor):
                path.unlink()
                continue
            with contextlib.suppress(InputError), open(descriptor, "rb", closefd=False) as file:
                yield parse_info(path, file.read())
        finally:
            os.close(descriptor)


def _nobody_else(descriptor: int) -> bool:
    """Take the lock of a file that is not being read; False if it is."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
