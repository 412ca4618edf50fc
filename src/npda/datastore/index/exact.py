"""Exact search: every query is compared with every key.

Three steps a block of keys, each cheaper than what it saves: scores such as ‖k‖² − 2·q·k by one matrix product, which
order the keys of a query as their distances do; the smallest scores, looked for only in those stretches of keys whose
minimum is among the smallest; the distances of these candidates from the differences of query and key. Scores are off
by rounding, so a row's candidates are taken only if they are proven to hold the nearest keys, and else searched again.

Why not ``faiss.knn``: it takes 6 to 13 times as long from 10,000 keys and 40 queries (``python -m benchmarks.exact``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from npda.datastore.index.search import missing, nearest
from npda.datastore.shards import Entries

IN_MEMORY_BYTES = 512 << 20  # keys are held in memory as float32 up to here, else read each time
_BLOCK_ROWS = 65_536
_TILE = 7 << 20  # scores held at once: up to 32 MB the C library gives the same memory again, beyond it new pages
_STRETCH = 64  # keys that share a minimum
_SPARE = 8  # candidates beyond the k asked for, at least
_ROUNDING = 2.0**-24  # relative error of a float32 operation


class ExactSearcher:
    """Compares every query with every key."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._in_memory: list[_Block] | None = None
        if 0 < entries.count * entries.dim * 4 <= IN_MEMORY_BYTES:
            parts = list(entries.blocks(_BLOCK_ROWS))
            ids = np.concatenate([np.arange(first, first + len(keys)) for first, keys in parts])
            keys = np.concatenate([keys for _, keys in parts])
            starts = range(0, len(ids), _BLOCK_ROWS)
            self._in_memory = [_Block.of(ids[i : i + _BLOCK_ROWS], keys[i : i + _BLOCK_ROWS]) for i in starts]

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] float32 → distances [n, k] float32 rising, ids [n, k] int64; +inf, −1 where missing"""
        distances, ids = missing(len(queries), k)
        for block in self._blocks():
            rows = max(1, _TILE // len(block.ids))
            for start in range(0, len(queries), rows):
                tile = slice(start, start + rows)
                near, found = block.nearest(torch.from_numpy(queries[tile]), k)
                distances[tile], ids[tile] = nearest([distances[tile], near], [ids[tile], found], k)
        return distances, ids

    def _blocks(self) -> Iterator[_Block]:
        if self._in_memory is not None:
            yield from self._in_memory
        else:
            for first, keys in self._entries.blocks(_BLOCK_ROWS):
                yield _Block.of(np.arange(first, first + len(keys)), keys)


@dataclass(frozen=True)
class _Block:
    """Some keys, ready to be compared.

    ids: [n]; keys: [n, dim]; centre: [dim], their mean; norms: [n], ‖k − c‖²; length: of the longest key

    Scores are ‖k − c‖² − 2·(q − c)·k, for any c the distance but for a number that all keys share. With the centre as
    c the two terms are small even where all keys lie far out in one direction, and rounding matters less.
    """

    ids: np.ndarray
    keys: Tensor
    centre: Tensor
    norms: Tensor
    length: float

    @classmethod
    def of(cls, ids: np.ndarray, keys: np.ndarray) -> _Block:
        rows, centre = torch.from_numpy(keys), torch.from_numpy(keys.mean(axis=0))
        norms = (rows - centre).square_().sum(dim=1)
        return cls(ids, rows, centre, norms, float(torch.linalg.vector_norm(rows, dim=1).max()))

    def nearest(self, queries: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        """At least the k nearest keys of every query, or all of them, in no order: distances and ids, [n, ≥ k]."""
        centred = queries - self.centre
        scores = self._scores(centred)
        smallest, places = _smallest(scores, min(k + max(_SPARE, k // 2), len(self.ids)))
        places.clamp_(max=len(self.ids) - 1)  # scores that are no numbers come after the +inf beyond the keys
        distances = self._distances(queries[:, None], places)
        ids = self.ids[places.numpy()]
        if smallest.shape[1] == len(self.ids):
            return distances.numpy(), ids
        # True scores lie within the error of those computed. So do those of the k smallest: none of them is above the
        # k-th plus the error, and whatever is more than twice the error above the k-th is further away than all these.
        limits = smallest[:, k - 1] + 2 * self._error(centred)
        for row in (~(smallest[:, -1] > limits)).nonzero()[:, 0].tolist():
            places = (scores[row, : len(self.ids)] <= limits[row]).nonzero()[:, 0]
            near = self._distances(queries[row], places).numpy()[None]
            near, found = nearest([near], [self.ids[places.numpy()][None]], k)
            distances[row], ids[row] = torch.inf, -1
            distances[row, : near.shape[1]], ids[row, : near.shape[1]] = torch.from_numpy(near[0]), found[0]
        return distances.numpy(), ids

    def _scores(self, centred: Tensor) -> Tensor:
        """centred: queries without the centre → [rows, n filled up to whole stretches], +inf beyond n"""
        count = len(self.ids)
        scores = torch.empty(len(centred), -(-count // _STRETCH) * _STRETCH)
        scores[:, count:] = torch.inf
        torch.addmm(self.norms, centred, self.keys.T, alpha=-2, out=scores[:, :count])
        return scores

    def _error(self, centred: Tensor) -> Tensor:
        """The most by which rounding can move a score: [rows].

        A product of two vectors of n numbers is off by less than n roundings of the product of their lengths, in
        whatever order it is summed up; eight more stand for taking off the centre and for adding the two terms.
        """
        lengths = torch.linalg.vector_norm(centred, dim=1)
        return (centred.shape[1] + 8) * _ROUNDING * (self.norms.max() + 2 * lengths * self.length)

    def _distances(self, queries: Tensor, places: Tensor) -> Tensor:
        """queries: [..., dim], that fit places: [...]"""
        differences = self.keys[places] - queries
        return torch.linalg.vecdot(differences, differences)


def _smallest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The smallest scores of every row, rising, and their places: [rows, count].

    They all lie in the ``count`` stretches with the smallest minima: were one elsewhere, each of these stretches would
    hold a score at least as small.
    """
    stretches = scores.view(len(scores), -1, _STRETCH)
    if stretches.shape[1] <= count:
        return torch.topk(scores, count, largest=False)
    chosen = torch.topk(stretches.amin(dim=2), count, largest=False).indices
    candidates = stretches.gather(1, chosen[:, :, None].expand(-1, -1, _STRETCH)).flatten(1)
    smallest, places = torch.topk(candidates, count, largest=False)
    return smallest, chosen.gather(1, places // _STRETCH) * _STRETCH + places % _STRETCH
