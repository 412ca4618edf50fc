"""A retriever that remembers: translations of one dev set with ever so slightly other settings ask the same again."""

from __future__ import annotations

import numpy as np

from npda.datastore.retrieval.protocol import Neighbours, Retriever

_STEPS = 256  # of the root mean square of a state's components: nearer ones are the same question
_BYTES = 2**28  # of answers; when they are full, all are forgotten


class CachingRetriever:
    """Asks another retriever only what it was not asked before; most questions of a second search are old.

    A state computed in another batch differs in its last digits, so that states are compared rounded. What rounding
    joins lies within dim · (rms / 256)², about 1/65,000 of a state's squared norm.

    Of use where the same sentences are translated again. Within one pass over different sentences states hardly repeat.

    depth: neighbours remembered for each state; a search for more is passed on
    asked, known: states so far, all of them and those that had been asked for before
    """

    def __init__(self, retriever: Retriever, depth: int) -> None:
        self._retriever = retriever
        self._depth = depth
        self.asked = 0
        self.known = 0
        self._unit = 0.0
        self._rows: dict[bytes, int] = {}  # of the answers to a rounded state
        self._distances = np.empty((0, depth), np.float32)
        self._values = np.empty((0, depth), np.int32)
        self._ids = np.empty((0, depth), np.int64)
        self._room = _BYTES // (16 * depth)

    @property
    def share_known(self) -> float:
        return self.known / self.asked if self.asked else 0.0

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        if k > self._depth or len(queries) == 0:
            self.asked += len(queries)
            return self._retriever.search(queries, k)
        self._unit = self._unit or float(np.sqrt(np.square(queries).mean())) / _STEPS or 1.0
        rounded = np.rint(queries / self._unit).astype(np.int32)
        keys = rounded.view(f"V{rounded.shape[1] * rounded.itemsize}").ravel().tolist()
        if len(self._rows) >= self._room:
            self._rows.clear()
        new = {key: place for place, key in enumerate(keys) if key not in self._rows}
        self.asked += len(keys)
        self.known += len(keys) - len(new)
        if new:
            self._remember(list(new), self._retriever.search(queries[list(new.values())], self._depth))
        rows = [self._rows[key] for key in keys]
        return Neighbours(self._distances[rows, :k], self._values[rows, :k], self._ids[rows, :k])

    def _remember(self, keys: list[bytes], found: Neighbours) -> None:
        start, end = len(self._rows), len(self._rows) + len(keys)
        if end > len(self._ids):
            more = ((0, max(len(self._ids), end - len(self._ids))), (0, 0))
            self._distances, self._values, self._ids = (
                np.pad(table, more) for table in (self._distances, self._values, self._ids)
            )
        self._distances[start:end] = found.distances
        self._values[start:end] = found.values
        self._ids[start:end] = found.ids
        self._rows.update(zip(keys, range(start, end), strict=True))
