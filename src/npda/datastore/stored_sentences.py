"""The sentences that keys stand in: which keys stand together, after which token each, how far they are."""

from __future__ import annotations

import numpy as np

from npda.datastore.index.search import missing, true_distances
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Neighbours
from npda.datastore.store import Datastore


class StoredSentences:
    """The keys of a store, or of several that are searched as one, by sentence; 8 bytes a key are held in memory.

    Ids are those the retriever gives. A sentence is known by the id of its first key.
    """

    def __init__(self, retriever: Datastore | LocalRetriever | JoinedRetriever) -> None:
        self._stores, offsets = _stores(retriever)
        self._keys = [store.entries.table() for store in self._stores]
        self._offsets = np.array(offsets, dtype=np.int64)
        total = offsets[-1] + self._stores[-1].entries.limit
        self._values = np.full(total + 1, -1, dtype=np.int32)  # the last one is what −1 points to
        self._before = np.full(total + 1, -1, dtype=np.int32)
        starts, ends = [], []
        for store, offset in zip(self._stores, offsets, strict=True):
            for shard in store.entries.shards:
                ids = slice(offset + shard.first, offset + shard.first + shard.count)
                values, numbers, positions = shard.values, shard.sentences, shard.positions
                self._values[ids] = values
                # Pruning leaves gaps in sentences: what stands behind one comes after a token that is not known.
                joined = (numbers[1:] == numbers[:-1]) & (positions[1:] == positions[:-1] + 1)
                self._before[ids][1:] = np.where(joined, values[:-1], -1)
                _, first, count = np.unique(numbers, return_index=True, return_counts=True)
                starts.append(offset + shard.first + first)
                ends.append(offset + shard.first + first + count)
        self._starts = np.concatenate([np.empty(0, np.int64), *starts])
        self._ends = np.concatenate([np.empty(0, np.int64), *ends])

    def of(self, ids: np.ndarray) -> np.ndarray:
        """The sentences that some keys belong to, each once, rising. ids: [n], those below 0 have none"""
        return self._starts[np.unique(np.searchsorted(self._starts, ids[ids >= 0], side="right") - 1)]

    def keys(self, sentences: np.ndarray) -> np.ndarray:
        """The ids of all keys of some sentences."""
        lengths = self._ends[np.searchsorted(self._starts, sentences)] - sentences
        return np.repeat(sentences - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())

    def before(self, ids: np.ndarray) -> np.ndarray:
        """The token before that of each key, −1 where the key is the first of its sentence. ids: [n] → [n] int32"""
        return self._before[ids]

    def nearest(self, queries: np.ndarray, rows: np.ndarray, ids: np.ndarray, k: int) -> Neighbours:
        """The k nearest of some candidates, by their true distance.

        queries: [n, dim] float32; rows: [candidates] rising, the query that each is a candidate of; ids: [candidates],
        each once a query
        """
        distances = self._distances(queries, rows, ids)
        codes = rows << 32 | distances.view(np.uint32)  # floats that are not negative are ordered as their bits are
        order = np.argsort(codes)
        if (np.diff(codes[order]) == 0).any():  # seldom: of equals the smaller id comes first
            order = np.lexsort((ids, codes))
        rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(queries)))[rows]
        row, rank, order = rows[rank < k], rank[rank < k], order[rank < k]
        found = missing(len(queries), k)
        for column, values in zip(found, (distances, ids), strict=True):
            column[row, rank] = values[order]
        return Neighbours(found[0], self._values[found[1]], found[1])

    def _distances(self, queries: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
        distances = np.empty(len(ids), dtype=np.float32)
        owners = np.searchsorted(self._offsets, ids, side="right") - 1
        for place in np.unique(owners).tolist():
            store, own = self._stores[place], owners == place
            projected = queries if store.projection is None else store.projection(queries)
            distances[own] = true_distances(self._keys[place], projected, rows[own], ids[own] - self._offsets[place])
        return distances


class SeenSentences:
    """Stored sentences that some searches came upon, grown one by one; their keys are looked up by the token before."""

    def __init__(self, stored: StoredSentences) -> None:
        self._stored = stored
        self._known: set[int] = set()
        self._ids = np.empty(0, dtype=np.int64)
        self._before = np.empty(0, dtype=np.int32)

    def add(self, ids: np.ndarray) -> None:
        """The sentences of these keys were seen. ids: [n]"""
        new = [sentence for sentence in self._stored.of(ids).tolist() if sentence not in self._known]
        if new:
            self._known.update(new)
            keys = self._stored.keys(np.array(new, dtype=np.int64))
            self._ids = np.concatenate([self._ids, keys])
            self._before = np.concatenate([self._before, self._stored.before(keys)])

    def after(self, token: int) -> np.ndarray:
        """The ids of all keys that come after a token: [n]"""
        return self._ids[self._before == token]


def _stores(retriever: Datastore | LocalRetriever | JoinedRetriever) -> tuple[list[Datastore], list[int]]:
    """The stores of a retriever, and what is added to the ids of each."""
    if isinstance(retriever, JoinedRetriever):
        return retriever.stores, retriever.offsets.tolist()
    return [retriever if isinstance(retriever, Datastore) else retriever.store], [0]
