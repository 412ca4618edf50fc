"""Searching a store on this machine."""

from __future__ import annotations

import numpy as np

from npda.datastore.retrieval.protocol import Entry, Neighbours
from npda.datastore.retrieval.state_search import StateSearch
from npda.datastore.store import Datastore


class LocalRetriever:
    """Searches a store with settings other than its own; a ``Datastore`` is a retriever with its own.

    nprobe, rerank: see ``IndexInfo``; threads: of Faiss, by default one per core (exact search uses those of torch)
    """

    def __init__(
        self, store: Datastore, nprobe: int | None = None, rerank: int | None = None, threads: int | None = None
    ) -> None:
        self.store = store
        self.dim = store.info.state_dim
        store.checking  # noqa: B018 (what Faiss opens has been looked at)
        searcher = store.searcher(nprobe, rerank, threads)
        self._states = StateSearch(store.entries, store.projection, searcher, self.dim, store.info.vocabulary_size)

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """queries: [n, dim] float32"""
        self.store.checking.raise_fault()
        return self._states.search(queries, k)

    def neighbour_info(self, id_: int) -> Entry:
        return self.store.neighbour_info(id_)
