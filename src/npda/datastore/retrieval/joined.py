"""Searching several stores as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Entry, Neighbours
from npda.datastore.store import Datastore
from npda.io.errors import InputError


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
    def left_out(self) -> int:
        """Searches so far that had to do without a part of a store, see ``npda.cluster.search``."""
        return sum(getattr(store, "left_out", 0) for store in self.stores)

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
