"""Digests of files by content, remembered as long as a file looks unchanged."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from npda.io.files import atomic_write

# A file written to twice within the clock's grain looks the same both times, so a young one is not remembered.
_YOUNG = 2.0


class Digests:
    """SHA-256 by path, remembered in a JSON file along with size, time of change and inode."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._changed = False
        try:
            self._known: dict[str, list] = dict(json.loads(cache.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            self._known = {}

    def of(self, path: str | Path) -> str:
        """The digest of a file; OSError if it cannot be read."""
        path = Path(path).absolute()
        status = path.stat()
        looks = [status.st_size, status.st_mtime_ns, status.st_ino]
        match self._known.get(str(path)):
            case [str(digest), *known] if known == looks:
                return digest
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if abs(time.time() - status.st_mtime) > _YOUNG:
            self._known[str(path)] = [digest, *looks]
            self._changed = True
        return digest

    def save(self) -> None:
        if self._changed:
            with atomic_write(self._cache) as temporary:
                temporary.write_text(json.dumps(self._known, indent=1) + "\n", encoding="utf-8")
            self._changed = False
