"""A retriever without an index."""

import numpy as np

from npda.datastore.retrieval.protocol import Neighbours


class BruteForce:
    """Every distance to every key, in double precision."""

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        self.keys, self.values = keys.astype(np.float64), values

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        distances = ((queries[:, None, :].astype(np.float64) - self.keys) ** 2).sum(-1)
        ids = np.argsort(distances, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(distances, ids, axis=1).astype(np.float32)
        return Neighbours(found, self.values[ids].astype(np.int32), ids)
