"""Versions of stores: what lies in a folder at one moment, opened whole, and freed with its last reader."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from npda.datastore.format import INFO, StoreInfo, read_info
from npda.datastore.store import Datastore
from npda.decoding.knn.adaptive import SETTINGS as ADAPTIVE
from npda.decoding.knn.tuned import FILE as TUNED
from npda.decoding.knn.tuned import Tuned, load_tuned_record
from npda.decoding.knn.tuned_guard import FILE as GUARD
from npda.decoding.knn.tuned_guard import FittedGuard, load_guard
from npda.io.errors import InputError
from npda.serving.stores.card import Card, read_card

logger = logging.getLogger(__name__)

Stamp = tuple[Any, ...]
Opening = Callable[[Path, StoreInfo], Datastore]  # how a store is searched: here, or on a cluster

_FILES = (INFO, TUNED, GUARD, ADAPTIVE)
_TRIES = 5  # to open a store while it is being replaced


def stamp_of(path: Path) -> Stamp | None:
    """Changes with the store that lies here and with its tuning; None where there is none."""
    home = path.resolve()
    found: list[Any] = [str(home)]
    for name in _FILES:
        try:
            status = (home / name).stat()
        except OSError:
            if name == INFO:
                return None
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


class Version:
    """A store as it was when it was opened; ``readers`` belongs to the library, which counts under its lock.

    path: its own folder, which a newer version of the same name does not share if the server made both
    """

    def __init__(self, name: str, path: Path, editable: bool, stamp: Stamp, opening: Opening = Datastore) -> None:
        self.name, self.path, self.editable, self.stamp = name, path.resolve(), editable, stamp
        self.store = opening(self.path, read_info(self.path))
        self.tuned: Tuned | None = load_tuned_record(self.store)
        self.guard: FittedGuard | None = load_guard(self.store)
        self.card: Card = read_card(self.path)
        self.readers = 0
        self._opening = threading.Lock()

    @property
    def info(self) -> StoreInfo:
        return self.store.info

    @property
    def belongs_to(self) -> tuple[str, str]:
        """Digests of the decoder and of the vocabulary."""
        return self.info.backbone.digest, self.info.vocabulary

    @cached_property
    def signature(self) -> str:
        """Equal for equal keys with equal tuning."""
        return f"{self.name}:{self.store.digest[:16]}:{hash(self.stamp) & 0xFFFFFFFF:08x}"

    def open(self) -> None:
        """Map the keys and open the index, so that nothing is left to be read when a search begins."""
        with self._opening:
            opened = Datastore.open(self.path)
            if opened.info != self.info:
                raise InputError(f"{self.name} is being replaced.")
            self.store.projection  # noqa: B018 (read now)
            for shard in self.store.entries.shards:
                shard.keys  # noqa: B018 (mapped now)
            self.store.ready()


def current(
    name: str, path: Path, editable: bool, known: Version | None, opening: Opening = Datastore
) -> Version | None:
    """The version that lies in a folder now: the known one if nothing has changed; None if nothing lies there.

    A store may be replaced while it is looked at: then it is looked at again.
    """
    return _settled(path, known, lambda stamp: Version(name, path, editable, stamp, opening))


def _settled(path: Path, known: Version | None, read: Callable[[Stamp], Version]) -> Version | None:
    for attempt in range(_TRIES):
        stamp = stamp_of(path)
        if stamp is None or (known is not None and known.stamp == stamp):
            return None if stamp is None else known
        try:
            found = read(stamp)
        except InputError:
            if attempt == _TRIES - 1 or stamp_of(path) == stamp:
                raise
            continue
        if stamp_of(path) == stamp:
            return found
    raise InputError(f"{path.name} changes all the time: try again later.")
