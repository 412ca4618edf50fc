"""Leaving out keys that say what others nearby say: greedy merging (He et al. 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from npda.datastore.index.search import Searcher
from npda.datastore.shards import Entries
from npda.io.progress import track

_QUERIES = 1_024


@dataclass(frozen=True)
class PruneOptions:
    """keep: share of the keys at least kept, if so many can go; radius: squared distance within which keys are one and
    the same, any by default; neighbours: how many of each key's nearest are looked at
    """

    keep: float = 0.5
    radius: float = float("inf")
    neighbours: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"the share to keep must be above 0 and at most 1, not {self.keep}")
        if not self.radius >= 0 or self.neighbours < 1:
            raise ValueError("the radius must be at least 0, neighbours at least 1")


def redundant(
    entries: Entries, searcher: Searcher, options: PruneOptions = PruneOptions(), progress: bool = True
) -> np.ndarray:
    """Ids of keys to leave out, rising.

    Pairs of near keys with the same value are taken up the nearest first, and of two that are both still there one
    goes, unless it stands for another that went: what is left out has a key of its value no further than its pair.
    """
    most = entries.count - math.ceil(options.keep * entries.count - 1e-9)  # 0.07 · 100 is a little more than 7
    stands = np.zeros(entries.limit, dtype=bool)  # for itself and for one that went
    gone = np.zeros(entries.limit, dtype=bool)
    count = 0
    for one, other in _pairs(entries, searcher, options, progress).tolist():
        if count == most:
            break
        if gone[one] or gone[other]:
            continue
        if stands[other]:
            one, other = other, one
        if not stands[other]:
            stands[one] = gone[other] = True
            count += 1
    return np.flatnonzero(gone)


def _pairs(entries: Entries, searcher: Searcher, options: PruneOptions, progress: bool) -> np.ndarray:
    """Near keys with the same value, smaller id first, the nearest pairs first: [n, 2]; some stand there twice."""
    values = np.append(entries.values(), np.int32(-1))  # the last one is what −1 points to
    k = min(options.neighbours + 1, entries.count)  # one of them is the key itself
    pairs, distances = [np.empty((0, 2), np.int64)], [np.empty(0, np.float32)]
    total = sum(-(-shard.count // _QUERIES) for shard in entries.shards)
    for start, keys in track(entries.blocks(_QUERIES), "finding keys that say the same", total, progress):
        own = np.arange(start, start + len(keys))[:, None]
        near, ids = searcher.search(keys, k)
        rows, columns = np.nonzero((values[ids] == values[own]) & (ids != own) & (near <= options.radius))
        pairs.append(np.sort(np.stack([own[rows, 0], ids[rows, columns]], axis=1), axis=1))
        distances.append(near[rows, columns])
    joined = np.concatenate(pairs)
    return joined[np.lexsort((joined[:, 1], joined[:, 0], np.concatenate(distances)))]
