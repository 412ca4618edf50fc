"""Settings of a store that was never tuned: k, λ and T by the scale of distances in general text.

The scale is the median squared distance of a key of the counter-store to its 8th neighbour there. Distances of one
model are of one size whatever the domain, so that it stands for those of the store as well, however small that is.
"""

from __future__ import annotations

import numpy as np

from npda.datastore.retrieval.protocol import Neighbours, Retriever
from npda.datastore.store import Datastore
from npda.decoding.knn.combiners import KnnOptions

NEIGHBOUR = 8  # whose distance is the scale
_K, _LAMBDA = 8, 0.5
_TEMPERATURE = 0.1  # times the scale: of two keys the nearer one counts, unless both are about as near
_SAMPLE = 256  # keys that the scale is measured by


def untuned(scale: float) -> KnnOptions:
    """k 8, λ 0.5, T a tenth of the scale."""
    return KnnOptions(_K, _LAMBDA, float(f"{_TEMPERATURE * scale:.2g}"))


def distance_scale(store: Datastore) -> float | None:
    """As tuning has measured it, else by some of the store's own keys; None where it has too few."""
    if store.info.distance_scale is not None:
        return store.info.distance_scale
    if len(store) <= NEIGHBOUR or store.projection is not None:
        return None
    keys = store.entries.keys(store.entries.sample(_SAMPLE, seed=0))
    return _median(store.search(keys, NEIGHBOUR + 1).distances)  # the first neighbour of a key is the key itself


def scale_of_keys(keys: np.ndarray) -> float | None:
    """The same for keys that are no store. keys: [n, dim] float32"""
    if len(keys) < 2:
        return None
    shown = keys[:_SAMPLE]
    norms = np.einsum("nd,nd->n", shown, shown)
    distances = np.maximum(norms[:, None] + norms - 2 * shown @ shown.T, 0)
    np.fill_diagonal(distances, np.inf)
    place = min(NEIGHBOUR, len(shown) - 1) - 1
    return _median(np.partition(distances, place, axis=1)[:, place : place + 1])


def _median(distances: np.ndarray) -> float | None:
    """Of the last column, if it is a length."""
    found = distances[:, -1]
    found = found[np.isfinite(found) & (found > 0)]
    return float(np.median(found)) if len(found) else None


class Yardstick(Retriever):
    """Stands in for a counter-store that a model lacks: one key, as far from everything as the scale says."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        rows = len(queries)
        distances = np.full((rows, k), np.inf, np.float32)
        distances[:, 0] = self.scale
        return Neighbours(distances, np.full((rows, k), -1, np.int32), np.full((rows, k), -1, np.int64))
