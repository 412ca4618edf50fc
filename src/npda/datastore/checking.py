"""Checksums of a store's files, looked at when it is opened, and remembered for as long as no file has changed.

What an index is made of, and all that is small, is read before it is used. Keys of large stores are read in the
background while the first sentences are decoded: a search after a fault was found is refused, and ``finish`` waits.
What was right is remembered in the user's cache by inode, size and time of change.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

from npda.datastore.format import SHARDS, FileInfo, StoreInfo
from npda.io.digests import Digests
from npda.io.errors import InputError
from npda.io.files import cache_dir

AT_ONCE = 128 << 20  # bytes of keys that are read before a store is used: a tenth of a second

_LARGE = "keys.npy"
_CACHE = "checked"


class Checking:
    """The check of one version of a store, begun when this is made.

    at_once: bytes of keys; of more, all are read in the background
    """

    def __init__(self, path: Path, info: StoreInfo, at_once: int = AT_ONCE) -> None:
        name = hashlib.sha256(str(path.absolute()).encode(errors="surrogateescape")).hexdigest()[:32]
        self._digests = Digests(cache_dir() / _CACHE / f"{name}.json")
        self._fault: InputError | None = None
        self._thread: threading.Thread | None = None
        files = files_of(path, info)
        unknown = [(file, wanted) for file, wanted in files if self._digests.known(file) != wanted.sha256]
        large = [(file, wanted) for file, wanted in unknown if file.name == _LARGE]
        if sum(wanted.bytes for _, wanted in large) <= at_once:
            large = []
        self._check([each for each in unknown if each not in large])
        self.raise_fault()
        if large:
            self._thread = threading.Thread(target=self._check, args=(large,), daemon=True, name=f"checking {path}")
            self._thread.start()

    def raise_fault(self) -> None:
        """What was found until now."""
        if self._fault is not None:
            raise self._fault

    def finish(self) -> None:
        """Wait until everything was looked at."""
        if self._thread is not None:
            self._thread.join()
        self.raise_fault()

    def _check(self, files: Sequence[tuple[Path, FileInfo]]) -> None:
        try:
            for file, wanted in files:
                wanted.check_size(file)
                if self._digests.of(file) != wanted.sha256:
                    raise InputError(
                        f"{file} does not have the checksum of datastore.json: "
                        "restore the datastore from its copy, or build it again."
                    )
        except InputError as error:
            self._fault = error
        except OSError as error:
            self._fault = InputError(f"{error.filename} cannot be read ({error.strerror}): restore it from a copy.")
        else:
            with contextlib.suppress(InputError, OSError):  # nothing is lost but time where the cache is read-only
                self._digests.save()


def files_of(path: Path, info: StoreInfo) -> list[tuple[Path, FileInfo]]:
    """Every file that a version of a store consists of, datastore.json apart, and what it must be."""
    shards = [(path / SHARDS / shard.name / name, file) for shard in info.shards for name, file in shard.files.items()]
    if info.index.directory is None:
        return shards
    return shards + [(path / info.index.directory / name, file) for name, file in info.index.files.items()]
