"""SHA-256 digests of files."""

from __future__ import annotations

import hashlib
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


class Digests:
    """Digests by path, remembered in a JSON file as long as size, time of change and inode stay the same."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._changed = False
        self._known = read_record(cache)

    def of(self, path: str | Path) -> str:
        """The digest of a file; OSError if it cannot be read."""
        path = Path(path).absolute()
        status = path.stat()
        looks = [status.st_size, status.st_mtime_ns, status.st_ino]
        match self._known.get(str(path)):
            case [str(digest), *known] if known == looks:
                return digest
        digest = file_digest(path)
        if abs(time.time() - status.st_mtime) > _YOUNG:
            self._known[str(path)] = [digest, *looks]
            self._changed = True
        return digest

    def save(self) -> None:
        if self._changed:
            write_record(self._cache, self._known, indent=1)
            self._changed = False
