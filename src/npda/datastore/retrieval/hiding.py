"""A retriever that passes over some of its keys: those of sentences that a store is measured by."""

from __future__ import annotations

import numpy as np

from npda.datastore.retrieval.protocol import Neighbours, Retriever

_MORE = 8  # neighbours that are asked for besides, as some may be hidden


class Hiding:
    """hidden: ids of keys, [n] int64"""

    def __init__(self, retriever: Retriever, hidden: np.ndarray) -> None:
        self._retriever = retriever
        self._hidden = np.unique(hidden)

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        more = min(_MORE, len(self._hidden))
        while True:
            found = self._retriever.search(queries, k + more)
            keeps = ~np.isin(found.ids, self._hidden)
            enough = (keeps.sum(axis=1) >= k) | (found.ids[:, -1] < 0)  # or there are no more keys
            if more == len(self._hidden) or enough.all():
                break
            more = min(8 * more, len(self._hidden))
        first = np.argsort(~keeps, axis=1, kind="stable")[:, :k]
        shown = np.take_along_axis(keeps, first, axis=1)
        parts = (np.take_along_axis(part, first, axis=1) for part in (found.distances, found.values, found.ids))
        distances, values, ids = parts
        return Neighbours(
            np.where(shown, distances, np.float32(np.inf)),
            np.where(shown, values, np.int32(-1)),
            np.where(shown, ids, np.int64(-1)),
        )
