"""Beam search with a store of 1.2 million keys, against the same without one and transformers' ``generate`` without.

    python -m benchmarks.knn_decode
    python -m benchmarks.knn_decode --keys 20000000 --batches 8     # 15 GB of disk
    python -m benchmarks.knn_decode --huge                          # 75 million keys, 58 GB of disk

The model is that of ``decode``, the store that of ``search``. The weights are random, so that the model's own states
would lie nowhere near the keys, and what a search takes depends on where its queries lie: made-up states that lie among
the keys are asked for in place of the model's, one for each of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from benchmarks import keys
from benchmarks.decode import model, ours, speech, theirs
from benchmarks.harness import Line, Result, Skipped, arguments, interleaved, ratio, report, sizes
from benchmarks.search import KEYS
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Neighbours
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore

K = 16
BAR = 1.12
LARGE_BAR = 1.30  # above KEYS
HUGE = 75_000_000  # reported, without a bar
THEIRS = 1.0
GUARDED = 1.10  # one store behind its gate over the same without one


class Placed:
    """A retriever that is asked for other states than it is given."""

    def __init__(self, retriever: LocalRetriever) -> None:
        self.unplaced = retriever
        self._states = keys.queries(1_024)
        self._next = 0

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        start = self._next if self._next + len(queries) <= len(self._states) else 0
        self._next = start + len(queries)
        return self.unplaced.search(self._states[start : self._next], k)


def measure(batches: Sequence[int], repeats: int, size: int) -> Iterator[Result]:
    title = "knn-decode" if size == KEYS else f"knn-decode, {size / 1e6:g}M keys"
    backbone, fast = model(), model()
    if lack := keys.lack_of_disk(size, backbone.dim):
        yield Skipped(title, lack)
        return
    store, _ = keys.indexed(keys.store(size, backbone.dim), "auto")
    retriever = Placed(LocalRetriever(store, threads=torch.get_num_threads()))
    fusions: list[Fusion] = [KnnFusion(retriever, KnnOptions(K))]
    # A counter-store as large as the store: the same keys, asked for on their own.
    guarded: list[Fusion] = [GuardedFusion([GuardedStore(retriever, KnnOptions(K))], Placed(retriever.unplaced))]
    for batch in batches:
        features = speech(batch)
        ways = {
            "with store": lambda features=features: ours(fast, features, fusions),
            "guarded": lambda features=features: ours(fast, features, guarded),
            "without": lambda features=features: ours(fast, features),
            "transformers": lambda features=features: theirs(backbone, features),
        }
        # A single sentence is over in a moment: more rounds tell more of it.
        times = interleaved(ways, repeats * max(1, 8 // batch))
        for other, bar in (("without", bar_of(size)), ("transformers", THEIRS if size < HUGE else None)):
            value, note = ratio(times, "with store", other)
            yield Line(f"{title}, batch {batch}: with store / {other}", value, bar, most=True, note=note)
        value, note = ratio(times, "guarded", "with store")
        yield Line(f"{title}, batch {batch}: guarded / with store", value, GUARDED, most=True, note=note)


def bar_of(size: int) -> float | None:
    if size <= KEYS:
        return BAR
    return LARGE_BAR if size < HUGE else None


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--batches", type=sizes, default=[1, 8, 16])
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--huge", action="store_const", const=HUGE, dest="keys", help=f"{HUGE:,} keys")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("knn-decode", lambda: measure(options.batches, options.repeats, options.keys), options.json)


if __name__ == "__main__":
    sys.exit(not main())
