"""Keys in memory that lie over a store: they can be searched the moment they are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import faiss
import numpy as np

from npda.datastore.index.search import missing, nearest, set_threads
from npda.datastore.projection import Projection
from npda.datastore.retrieval.protocol import Entry, Neighbours
from npda.datastore.store import Datastore

_SPARE = 16  # candidates beyond the k asked for: Faiss rounds distances that are nearly 0
_ROWS = 1_024  # keys there is room for at first
_LOOKED_AT = 1_024  # the latest keys, whose neighbours tell how far keys speak for each other
_AGREE, _MET = 0.7, 32  # share of them that have to stand before the same token, and how many at least


@dataclass(frozen=True)
class Added:
    """A sentence whose keys lie over a store.

    keys: [n, dim] of its target's tokens, end symbol included; tokens: [n]; source: its name, as a store's sources have
    """

    id: str
    source: str
    source_text: str
    target_text: str
    keys: np.ndarray
    tokens: np.ndarray


@dataclass(frozen=True)
class Overlay:
    """Some keys in their order; it stays what it is while others are added.

    keys: [n, dim] float32; values: [n] int32; sentences: [n], place of each key's sentence in ``added``; firsts: of
    the first key of each sentence; version: another number for other keys
    """

    keys: np.ndarray
    values: np.ndarray
    sentences: np.ndarray
    firsts: Sequence[int]
    added: Sequence[Added]
    version: int
    _projected: list[tuple[Projection, Overlay]] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.values)

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """Exactly: every key is compared. queries: [n, dim] float32 → ids from 0"""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        distances, ids = missing(len(queries), k)
        if len(self) and len(queries):
            set_threads()
            found = faiss.knn(queries, self.keys, min(k + _SPARE, len(self)))[1]
            differences = self.keys[found] - queries[:, None]
            true = np.einsum("nkd,nkd->nk", differences, differences)
            distances, ids = nearest([true, distances], [found, ids], k)
        return Neighbours(distances, np.where(ids < 0, np.int32(-1), self.values[ids] if len(self) else -1), ids)

    @cached_property
    def reach(self) -> float:
        """The squared distance up to which the nearest key of another sentence mostly stands before the same token.

        0 as long as there are too few sentences to tell.
        """
        keys, values = self.keys[-_LOOKED_AT:], self.values[-_LOOKED_AT:]
        sentences = self.sentences[-_LOOKED_AT:]
        if len(keys) < _MET:
            return 0.0
        norms = np.einsum("nd,nd->n", keys, keys)
        distances = np.maximum(norms[:, None] + norms - 2 * keys @ keys.T, 0)
        distances[sentences[:, None] == sentences] = np.inf
        nearest_one = distances.argmin(axis=1)
        found = distances[np.arange(len(keys)), nearest_one]
        order = np.argsort(found)
        agreeing = np.cumsum(values[nearest_one[order]] == values[order])
        met = np.arange(1, len(keys) + 1)
        good = np.flatnonzero((agreeing >= _AGREE * met) & (met >= _MET) & np.isfinite(found[order]))
        return float(found[order][good[-1]]) if len(good) else 0.0

    def neighbour_info(self, id_: int) -> Entry:
        sentence = int(self.sentences[id_])
        of = self.added[sentence]
        return Entry(of.source_text, of.target_text, id_ - self.firsts[sentence], int(self.values[id_]), of.source)

    def projected(self, projection: Projection | None) -> Overlay:
        """As keys of a store whose keys are not the states themselves."""
        if projection is None:
            return self
        for known, overlay in self._projected:
            if known is projection:
                return overlay
        keys = np.ascontiguousarray(projection(self.keys), dtype=np.float32)
        overlay = Overlay(keys, self.values, self.sentences, self.firsts, self.added, self.version)
        self._projected[:] = [(projection, overlay)]
        return overlay


class Overlaying:
    """Grows an overlay: adding copies nothing but what is added, removing copies the rest. For one thread at a time."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._version = 0
        self._now: Overlay | None = None
        self._clear()

    def __len__(self) -> int:
        return self._count

    @property
    def added(self) -> list[Added]:
        return list(self._added)

    def add(self, sentence: Added) -> None:
        if sentence.keys.shape != (len(sentence.tokens), self.dim):
            raise ValueError(f"keys must be [{len(sentence.tokens)}, {self.dim}], not {list(sentence.keys.shape)}")
        end = self._count + len(sentence.tokens)
        if end > len(self._values):
            # Snapshots keep the old arrays.
            room = max(end, 2 * len(self._values))
            self._keys, self._values, self._sentences = (
                _grown(array, room) for array in (self._keys, self._values, self._sentences)
            )
        self._keys[self._count : end] = sentence.keys
        self._values[self._count : end] = sentence.tokens
        self._sentences[self._count : end] = len(self._added)
        self._firsts.append(self._count)
        self._added.append(sentence)
        self._count = end
        self._version += 1

    def remove(self, ids: set[str]) -> None:
        kept = [sentence for sentence in self._added if sentence.id not in ids]
        self._clear()
        for sentence in kept:
            self.add(sentence)
        self._version += 1

    def overlay(self) -> Overlay:
        """What there is now; the same object until something changes."""
        if self._now is None or self._now.version != self._version:
            n = self._count
            keys, values, sentences = self._keys[:n], self._values[:n], self._sentences[:n]
            self._now = Overlay(keys, values, sentences, self._firsts, self._added, self._version)
        return self._now

    def _clear(self) -> None:
        self._count = 0
        self._keys = np.empty((_ROWS, self.dim), np.float32)
        self._values = np.empty(_ROWS, np.int32)
        self._sentences = np.empty(_ROWS, np.int32)
        self._firsts: list[int] = []  # they only grow, so that snapshots may share them
        self._added: list[Added] = []


class Overlaid:
    """A store with what lies over it, searched as one. The ids of the overlay follow those of the store.

    name: of both; store: None for an overlay alone
    """

    def __init__(self, name: str, store: Datastore | None, overlay: Overlay) -> None:
        self.name = name
        self.base = store
        self.overlay = overlay.projected(store.projection) if store is not None else overlay
        self.first = store.info.next_id if store is not None else 0

    @property
    def left_out(self) -> int:
        """Searches so far that had to do without a part of the store, see ``npda.cluster.search``."""
        return getattr(self.base, "left_out", 0)

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """queries: [n, state dim] float32"""
        if self.base is None:
            return self.overlay.search(queries, k)
        below = self.base.search(queries, k)
        above = self.overlay.search(queries if self.base.projection is None else self.base.projection(queries), k)
        distances = np.concatenate([above.distances, below.distances], axis=1)
        ids = np.concatenate([np.where(above.ids < 0, -1, above.ids + self.first), below.ids], axis=1)
        values = np.concatenate([above.values, below.values], axis=1)
        # Of equals the store's come first, as they have the smaller ids; what is missing comes last.
        order = np.lexsort((ids, distances), axis=-1)[:, :k]
        return Neighbours(*(np.take_along_axis(column, order, axis=1) for column in (distances, values, ids)))

    def neighbour_info(self, id_: int) -> Entry:
        if id_ >= self.first:
            return self.overlay.neighbour_info(id_ - self.first)
        assert self.base is not None
        return self.base.neighbour_info(id_)


def _grown(array: np.ndarray, rows: int) -> np.ndarray:
    grown = np.empty((rows, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
