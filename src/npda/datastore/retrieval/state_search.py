"""From states of the model to neighbours: states are projected, keys are searched, values are looked up."""

from __future__ import annotations

import numpy as np

from npda.datastore.index.search import Searcher, missing
from npda.datastore.projection import Projection
from npda.datastore.retrieval.protocol import Neighbours
from npda.datastore.shards import Entries
from npda.io.errors import InputError


class StateSearch:
    """Searches the entries of a store; the values of all keys are held in memory, 4 bytes each.

    projection: from states to keys, if they differ; searcher: finds keys near other keys; dim: of the states;
    vocabulary: tokens that there are
    """

    def __init__(
        self, entries: Entries, projection: Projection | None, searcher: Searcher, dim: int, vocabulary: int
    ) -> None:
        self._projection = projection
        self._searcher = searcher
        self._dim = dim
        self._is_empty = entries.count == 0
        self._values = np.append(checked_values(entries, vocabulary), np.int32(-1))  # the last one is what −1 points to

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
            if int(ids.max(initial=-1)) >= len(self._values) - 1 or int(ids.min(initial=-1)) < -1:
                raise InputError("The index names keys that the datastore does not hold: restore it from a copy.")
        return Neighbours(distances, self._values[ids], ids)


def checked_values(entries: Entries, vocabulary: int) -> np.ndarray:
    """The value of every id, −1 where there is none; no other is outside of the vocabulary."""
    values = entries.values()
    if len(values) and not -1 <= int(values.min()) <= int(values.max()) < vocabulary:
        raise InputError(f"The datastore holds values outside of its {vocabulary} tokens: restore it from a copy.")
    return values
