"""Exact search, ours against ``faiss.knn``: why npda has its own.

    python -m benchmarks.exact
    python -m benchmarks.exact --keys 10000,38000 --calls 40

Both search the same made-up keys (see ``benchmarks/keys.py``): float16 on disk, float32 in memory once they are read.
The ratio is the time of ``faiss.knn`` over ours; below 1 Faiss is faster. Faiss returns distances as rounding leaves
them; ours computes them from the differences of query and key and proves that no nearer key was missed. ``faiss.knn``
with the distances of what it finds computed again stands beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import faiss
import numpy as np
import torch

from benchmarks import keys
from benchmarks.harness import Line, arguments, asking, interleaved, ratio, report, sizes
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.search import rescored, set_threads
from npda.datastore.shards import Entries

KEYS, CALLS, K = (2_000, 10_000, 38_000, 100_000), (5, 40, 320), 8
QUERIES, DIM = 320, 256
FROM_KEYS, FROM_CALL, BAR = 10_000, 40, 1.1  # were Faiss within a tenth from here on, ours could go


class FaissSearcher:
    """entries: held in memory as float32; true: whether the distances of what Faiss finds are computed again"""

    def __init__(self, entries: Entries, true: bool) -> None:
        self._keys = np.concatenate([block for _, block in entries.blocks(entries.count)])
        self._table = entries.table() if true else None

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] → distances, ids: [n, k]"""
        distances, ids = faiss.knn(queries, self._keys, k)
        return (distances, ids) if self._table is None else rescored(self._table, queries, ids, k)


def measure(counts: Sequence[int], calls: Sequence[int], repeats: int) -> Iterator[Line]:
    set_threads(torch.get_num_threads())
    queries = keys.queries(QUERIES, DIM)
    for count in counts:
        entries = keys.store(count, DIM).entries
        searchers = {"faiss.knn": FaissSearcher(entries, true=False), "re-ranked": FaissSearcher(entries, true=True)}
        ours = ExactSearcher(entries)
        for size in calls:
            ways = {name: asking(searcher, queries, size, K) for name, searcher in searchers.items()}
            times = interleaved({**ways, "ours": asking(ours, queries, size, K)}, repeats)
            bar = BAR if count >= FROM_KEYS and size >= FROM_CALL else None
            for name in ways:
                value, note = ratio(times, name, "ours")
                yield Line(f"exact, {count:,} keys, {size} a call: {name} / ours", value, bar, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--keys", type=sizes, default=KEYS, help="keys in the store, separated by commas")
    parser.add_argument("--calls", type=sizes, default=CALLS, help="queries in a call, separated by commas")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("exact", lambda: measure(options.keys, options.calls, options.repeats), options.json)


if __name__ == "__main__":
    sys.exit(not main())
