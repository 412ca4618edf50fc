"""From states of the model to neighbours: states are projected, keys are searched, values are looked up."""

from __future__ import annotations

import numpy as np

from npda.datastore.index.search import Searcher, missing
from npda.datastore.projection import Projection
from npda.datastore.retrieval.protocol import Neighbours
from npda.datastore.shards import Entries


class StateSearch:
    """Searches the entries of a store; the values of all keys are held in memory, 4 bytes each.

    projection: from states to keys, if they differ; searcher: finds keys near other keys; dim: of the states
    """

    def __init__(self, entries: Entries, projection: Projection | None, searcher: Searcher, dim: int) -> None:
        self._projection = projection
        self._searcher = searcher
        self._dim = dim
        self._is_empty = entries.count == 0
        self._values = np.append(entries.values(), np.int32(-1))  # the last one is what −1 points to

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """queries: [n, dim] float32"""
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        if queries.ndim != 2 or queries.shape[1] != self._dim:
            raise ValueError(f"queries must be [n, {self._dim}], not {list(queries.shape)}")
        states = np.ascontiguousarray(queries, dtype=np.float32)
        if len(states) == 0 or self._is_empty:
            distances, ids = missing(len(states), k)
        else:
            keys = states if self._projection is None else self._projection(states)
            distances, ids = self._searcher.search(keys, k)
        return Neighbours(distances, self._values[ids], ids)
