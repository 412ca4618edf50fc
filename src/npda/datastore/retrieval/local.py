"""The seam between searching and everything that uses what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from npda.datastore.format import INDEX_FILE
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.search import IndexSearcher, Searcher, missing
from npda.datastore.store import Datastore, Entry
from npda.io.errors import InputError


@dataclass(frozen=True)
class Neighbours:
    """The nearest keys of every query, nearest first.

    distances: [n, k] float32, squared L2, +inf where there are fewer keys than k; values: [n, k] int32 tokens;
    ids: [n, k] int64 of the keys; both −1 where the distance is +inf
    """

    distances: np.ndarray
    values: np.ndarray
    ids: np.ndarray

    def of(self, rows: np.ndarray) -> Neighbours:
        """Those of some queries. rows: [m], of the n queries"""
        return Neighbours(self.distances[rows], self.values[rows], self.ids[rows])


class Retriever(Protocol):
    """Whoever finds the nearest keys."""

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """queries: [n, dim] float32"""
        ...


class LocalRetriever:
    """Searches a store on this machine; the values of all keys are held in memory, 4 bytes each.

    nprobe, rerank: other than the store's own (see ``IndexInfo``); threads: of Faiss, by default one a core (exact
    search has those of torch)
    """

    def __init__(
        self, store: Datastore, nprobe: int | None = None, rerank: int | None = None, threads: int | None = None
    ) -> None:
        self.store = store
        self.dim = store.info.state_dim
        self._searcher = open_searcher(store, nprobe, rerank, threads)
        self._values = np.append(store.entries.values(), np.int32(-1))  # the last one is what −1 points to

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        queries = _checked(queries, self.dim, k)
        if self.store.projection is not None:
            queries = self.store.projection(queries)
        if len(queries) == 0 or len(self.store) == 0:
            distances, ids = missing(len(queries), k)
        else:
            distances, ids = self._searcher.search(queries, k)
        return Neighbours(distances, self._values[ids], ids)

    def neighbour_info(self, id_: int) -> Entry:
        return self.store.neighbour_info(id_)


class JoinedRetriever:
    """Searches several stores as if they were one.

    The ids of a store are shifted by its offset, so that each id tells its store: see ``locate``.
    """

    def __init__(self, stores: Sequence[Datastore | LocalRetriever]) -> None:
        if not stores:
            raise ValueError("at least one store is needed")
        self._retrievers = [LocalRetriever(store) if isinstance(store, Datastore) else store for store in stores]
        self.dim = self._retrievers[0].dim
        first = self._retrievers[0].store
        for retriever in self._retrievers[1:]:
            other = retriever.store
            if other.info.backbone != first.info.backbone or other.info.vocabulary != first.info.vocabulary:
                raise InputError(f"{first.path} and {other.path} were built with different models: use one at a time.")
        sizes = [retriever.store.info.next_id for retriever in self._retrievers]
        self.offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        found = [retriever.search(queries, k) for retriever in self._retrievers]
        distances = np.concatenate([n.distances for n in found], axis=1)
        values = np.concatenate([n.values for n in found], axis=1)
        ids = np.concatenate(
            [np.where(n.ids < 0, -1, n.ids + offset) for n, offset in zip(found, self.offsets, strict=True)], axis=1
        )
        order = np.lexsort((ids, distances), axis=-1)[:, :k]
        return Neighbours(*(np.take_along_axis(column, order, axis=1) for column in (distances, values, ids)))

    @property
    def stores(self) -> list[Datastore]:
        return [retriever.store for retriever in self._retrievers]

    def locate(self, id_: int) -> tuple[Datastore, int]:
        """The store of a joined id, and the id there."""
        place = int(np.searchsorted(self.offsets, id_, side="right")) - 1
        return self._retrievers[place].store, int(id_ - self.offsets[place])

    def neighbour_info(self, id_: int) -> Entry:
        store, local = self.locate(id_)
        return store.neighbour_info(local)


def open_searcher(
    store: Datastore, nprobe: int | None = None, rerank: int | None = None, threads: int | None = None
) -> Searcher:
    """What finds keys near other keys, for queries that are projected already; see ``LocalRetriever``."""
    index = store.info.index
    if store.index_directory is None:
        return ExactSearcher(store.entries)
    return IndexSearcher(
        store.entries,
        store.index_directory / INDEX_FILE,
        index.nprobe if nprobe is None else nprobe,
        index.rerank if rerank is None else rerank,
        threads,
    )


def _checked(queries: np.ndarray, dim: int, k: int) -> np.ndarray:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise ValueError(f"queries must be [n, {dim}], not {list(queries.shape)}")
    return np.ascontiguousarray(queries, dtype=np.float32)
