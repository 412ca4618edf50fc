"""A part of a store: the keys of a range of ids, searched by themselves in a way that gives what the whole would.

An index of codes finds some candidates by rough distances and then compares their keys. A part cannot know which
of its candidates are among the best of the whole store, so it names as many as the whole would look at, each with its
rough and its true distance; `merged` chooses among the candidates of all parts as the one index would have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from npda.datastore.format import INDEX_FILE
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.lists import inverted, open_mapped, packed, within
from npda.datastore.index.probing import Probing, list_sizes
from npda.datastore.index.search import missing, nearest, set_threads, true_distances, wanted
from npda.datastore.shards import Entries
from npda.datastore.store import Datastore
from npda.io.errors import InputError


@dataclass(frozen=True)
class Found:
    """Candidates of a part. rough: [n, c] distances by the index's codes; ids: [n, c], −1 where there are fewer;
    true: [n, c] distances of the keys themselves, or the rough ones where the store does not compare keys again
    """

    rough: np.ndarray
    ids: np.ndarray
    true: np.ndarray


def ranges(entries: Entries, parts: int) -> list[tuple[int, int]]:
    """First id and end of equally many keys each. Ids may have gaps."""
    sizes = np.cumsum([0, *(shard.count for shard in entries.shards)])
    ends = []
    for place in np.rint(np.arange(1, parts) * (entries.count / parts)).astype(int).tolist():
        number = int(np.searchsorted(sizes, place, side="right")) - 1
        ends.append(entries.shards[number].first + place - int(sizes[number]))
    cuts = [0, *ends, entries.limit]
    return [(first, end) for first, end in pairwise(cuts) if end > first]


class PartSearcher:
    """Searches the keys of a store whose ids lie between ``first`` and ``end``; its part of the index is in memory."""

    def __init__(self, store: Datastore, first: int, end: int, threads: int | None = None) -> None:
        info = store.info.index
        self._threads = threads
        self._rerank = info.rerank
        self._index, self._exact = None, None
        if store.index_directory is None:
            self._exact = ExactSearcher(_Range(store.entries, first, end))  # pyright: ignore[reportArgumentType]
            return
        whole = _lists(store.index_directory / INDEX_FILE)
        sizes = list_sizes(inverted(whole))
        self._index = Probing(packed(within(whole, first, end)), info.nprobe, sizes)
        self._keys = store.entries.table() if self._rerank else None

    def search(self, queries: np.ndarray, k: int) -> Found:
        """queries: [n, dim] float32, keys already"""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if self._exact is not None:
            distances, ids = self._exact.search(queries, k)
            return Found(distances, ids, distances)
        assert self._index is not None
        set_threads(self._threads)
        rough, ids = self._index.search(queries, wanted(k, self._rerank))
        rough = np.where(ids < 0, np.inf, np.maximum(rough, 0)).astype(np.float32)
        return Found(rough, ids, self._true(queries, ids) if self._keys is not None else rough)

    def _true(self, queries: np.ndarray, ids: np.ndarray) -> np.ndarray:
        rows, columns = np.nonzero(ids >= 0)
        distances = np.full(ids.shape, np.inf, dtype=np.float32)
        order = np.lexsort((ids[rows, columns], rows))  # neighbours on disk are read together
        rows, columns = rows[order], columns[order]
        assert self._keys is not None
        distances[rows, columns] = true_distances(self._keys, queries, rows, ids[rows, columns])
        return distances


def merged(found: Sequence[Found], k: int, rerank: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of all parts. rerank: of the whole index, 0 for a store that does not compare keys again

    → distances [n, k] rising, ids [n, k]; +inf, −1 where missing
    """
    rough, ids, true = (
        np.concatenate([getattr(one, name) for one in found], axis=1) for name in ("rough", "ids", "true")
    )
    if rerank and ids.shape[1] > (count := wanted(k, rerank)):
        best = np.lexsort((ids, rough), axis=-1)[:, :count]
        ids, true = np.take_along_axis(ids, best, axis=1), np.take_along_axis(true, best, axis=1)
    none = missing(len(ids), k)
    return nearest([none[0], true], [none[1], ids], k)


@dataclass(frozen=True)
class _Range:
    """Some of the entries of a store, for exact search."""

    entries: Entries
    first: int
    end: int

    @property
    def dim(self) -> int:
        return self.entries.dim

    @property
    def count(self) -> int:
        pieces = ((shard.first, shard.first + shard.count) for shard in self.entries.shards)
        return sum(max(0, min(end, self.end) - max(first, self.first)) for first, end in pieces)

    def blocks(self, rows: int) -> Iterator[tuple[int, np.ndarray]]:
        for first, keys in self.entries.blocks(rows):
            start, end = max(self.first - first, 0), min(self.end - first, len(keys))
            if start < end:
                yield first + start, np.ascontiguousarray(keys[start:end])


def _lists(path: Path):
    index = open_mapped(path)
    if inverted(index) is None:
        raise InputError(f"{path} has no inverted lists and cannot be cut into parts: use another index.")
    return index
