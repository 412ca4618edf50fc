"""Keys that were met exactly: a stored sentence in the very same state shows how it continues.

A correction holds the decoder's states for the very audio it corrects. When that audio comes again, its keys lie at a
distance of next to nothing, and then they decide, whatever λ and the gate leave them for states that are merely near,
and for the end of the sentence as for any other token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npda.datastore.retrieval.protocol import Neighbours

WEIGHT = 0.95  # of keys that were met: the rest is the model's, so that it decides between two that contradict
_WITHIN = 0.01  # of the scale: rounding moves a state by far less, and another recording by far more


@dataclass(frozen=True)
class Exact:
    """within: squared distance up to which a key is met; weight: of all keys that are, in the mixture;
    first: id from which on keys count as met, others never do
    """

    within: float
    weight: float = WEIGHT
    first: int = 0

    def __post_init__(self) -> None:
        if not (self.within >= 0 and 0 <= self.weight < 1):
            raise ValueError("the distance must be at least 0, the weight from 0 to less than 1")

    def __str__(self) -> str:
        return f"exact:{self.within:.2g},{self.weight:g}"

    def met(self, found: Neighbours) -> np.ndarray:
        """Equal shares of the keys that were met: [rows, k] float32, which sum to 1 in a row, or are all 0."""
        met = (found.ids >= self.first) & (found.ids >= 0) & (found.distances <= self.within)
        return met.astype(np.float32) / np.maximum(met.sum(axis=1, keepdims=True), 1)


def exact_within(scale: float) -> float:
    """How near a key has to be. scale: of distances, see ``npda.decoding.knn.untuned``"""
    return _WITHIN * scale
