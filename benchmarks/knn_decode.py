"""Beam search with a store of 1.2 million keys, against the same without one and transformers' ``generate`` without.

    python -m benchmarks.knn_decode

The model is that of ``decode``, the store that of ``search``. The weights are random, so that the model's own states
would lie nowhere near the keys, and what a search takes depends on where its queries lie: made-up states that lie among
the keys are asked for in place of the model's, one for each of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import torch

from benchmarks import keys
from benchmarks.decode import model, ours, speech, theirs
from benchmarks.harness import Line, arguments, interleaved, ratio, report, sizes
from benchmarks.search import KEYS
from npda.datastore.retrieval import LocalRetriever, Neighbours
from npda.decoding.fusion import Fusion
from npda.decoding.knn import KnnFusion, KnnOptions

K = 16
BARS = {1: 1.20, 8: 1.30, 16: 1.30}
THEIRS = 1.0


class Placed:
    """A retriever that is asked for other states than it is given."""

    def __init__(self, retriever: LocalRetriever) -> None:
        self._retriever = retriever
        self._states = keys.queries(1_024)
        self._next = count()

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        rows = [next(self._next) % len(self._states) for _ in queries]
        return self._retriever.search(self._states[rows], k)


def measure(batches: Sequence[int], repeats: int, size: int) -> Iterator[Line]:
    backbone, fast = model(), model()
    store, _ = keys.indexed(keys.store(size, backbone.dim), "auto")
    retriever = Placed(LocalRetriever(store, threads=torch.get_num_threads()))
    fusions: list[Fusion] = [KnnFusion(retriever, KnnOptions(K))]
    for batch in batches:
        features = speech(batch)
        ways = {
            "with store": lambda features=features: ours(fast, features, fusions),
            "without": lambda features=features: ours(fast, features),
            "transformers": lambda features=features: theirs(backbone, features),
        }
        times = interleaved(ways, repeats)
        for other, bar in (("without", BARS.get(batch)), ("transformers", THEIRS)):
            value, note = ratio(times, "with store", other)
            yield Line(f"knn-decode, batch {batch}: with store / {other}", value, bar, most=True, note=note)


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=sizes, default=[1, 8, 16])
    parser.add_argument("--keys", type=int, default=KEYS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("knn-decode", lambda: measure(options.batches, options.repeats, options.keys), options.json)


if __name__ == "__main__":
    sys.exit(not main())
