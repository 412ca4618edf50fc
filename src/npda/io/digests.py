"""SHA-256 digests of files."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from npda.io.errors import InputError
from npda.io.records import read_record, write_record

# A file written to twice within the clock's grain looks the same both times, so a young one is not remembered.
_YOUNG = 2.0


def file_digest(path: Path) -> str:
    """The digest of a file; OSError if it cannot be read."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def short_digest(path: Path) -> str:
    """The first 16 digits: enough to tell whether an input has changed."""
    try:
        return file_digest(path)[:16]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _looks(status: os.stat_result) -> list[int]:
    """What changes with every writing of a file."""
    return [status.st_size, status.st_mtime_ns, status.st_ino]


class Digests:
    """Digests by path, remembered in a JSON file as long as size, time of change and inode stay the same."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._changed = False
        self._known = read_record(cache)

    def known(self, path: str | Path) -> str | None:
        """The remembered digest of a file that has not changed since; OSError if it is not there."""
        path = Path(path).absolute()
        match self._known.get(str(path)):
            case [str(digest), *known] if known == _looks(path.stat()):
                return digest
        return None

    def of(self, path: str | Path) -> str:
        """The digest of a file; OSError if it cannot be read."""
        path = Path(path).absolute()
        status = path.stat()
        looks = _looks(status)
        if (remembered := self.known(path)) is not None:
            return remembered
        digest = file_digest(path)
        if abs(time.time() - status.st_mtime) > _YOUNG:
            self._known[str(path)] = [digest, *looks]
            self._changed = True
        return digest

    def save(self) -> None:
        if self._changed:
            write_record(self._cache, self._known, indent=1)
            self._changed = False
