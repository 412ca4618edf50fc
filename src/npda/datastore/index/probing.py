"""Which inverted lists a query visits: of the nearest ones those that may hold a neighbour.

Where the codes of keys tell the lists as well (see ``lists.packed``), a list far beyond the nearest is left out: half
of the lists of a large store, and three quarters of a small one's, hold no neighbour that is missed.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from npda.datastore.index.lists import inverted

_REACH = 1.6  # times the squared distance of the nearest centroid, from which on lists hold next to no neighbours
_ALWAYS = 4  # one of so many lists is visited however far it is


class Probing:
    """Searches an index that was opened to be searched, for candidates by its own distances.

    nprobe: lists to look at, at most; none is left out where all are asked for; sizes: [lists] entries of each, by
    default those of the index: a part of a store visits the lists that the whole would
    """

    def __init__(self, index: Any, nprobe: int, sizes: np.ndarray | None = None) -> None:
        self._index = index
        self._lists = inverted(index)
        self._centroids: Any = None
        if self._lists is None:
            return
        self._lists.nprobe = min(nprobe, self._lists.nlist)
        centroids = faiss.downcast_index(self._lists.quantizer)
        if isinstance(centroids, faiss.IndexPQFastScan) and _ALWAYS < self._lists.nprobe < self._lists.nlist:
            self._centroids = centroids
            self._turns = [faiss.downcast_VectorTransform(index.chain.at(i)) for i in range(_turns(index))]
            self._sizes = list_sizes(self._lists) if sizes is None else sizes

    def search(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] float32 → distances and ids, [n, count], the nearest first; −1 where there are fewer"""
        if self._centroids is None:
            return self._index.search(queries, count)
        for turn in self._turns:
            queries = turn.apply(queries)
        distances, lists = self._centroids.search(queries, self._lists.nprobe)
        lists = np.where(self._visited(distances, lists, count), lists, -1)
        return self._lists.search_preassigned(queries, count, lists, distances)

    def _visited(self, distances: np.ndarray, lists: np.ndarray, count: int) -> np.ndarray:
        """distances, lists: [n, nprobe], the nearest list first → [n, nprobe] bool

        Whatever the distance, the first lists are visited until they hold as many keys as are wanted.
        """
        visited = distances <= _REACH * distances[:, :1]
        visited[:, : -(-lists.shape[1] // _ALWAYS)] = True
        held = self._sizes[lists].cumsum(axis=1)
        visited[:, 1:] |= held[:, :-1] < count
        return visited


def list_sizes(lists: Any) -> np.ndarray:
    """How many entries each inverted list has: [lists] int64"""
    return np.array([lists.invlists.list_size(number) for number in range(lists.nlist)], dtype=np.int64)


def _turns(index: Any) -> int:
    """How many transforms an index applies to keys first."""
    return index.chain.size() if hasattr(index, "chain") else 0
