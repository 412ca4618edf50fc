"""Exact search, ours against ``faiss.knn``: the reason why npda has its own.

    python -m benchmarks.exact
    python -m benchmarks.exact --keys 10000,38000 --calls 40

Both search the same made-up keys (see ``benchmarks/keys.py``): float16 on disk, float32 in memory once they are read.
The ratio is the time of ``faiss.knn`` over ours; below 1 Faiss is faster. From 20 queries a call Faiss takes distances
from ‖q‖² + ‖k‖² − 2·q·k and returns them as rounding leaves them, so ``faiss.knn`` with the true distances of what it
finds stands beside it. Ours computes true distances and proves that no nearer key was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import faiss
import numpy as np
import torch

from benchmarks import keys
from benchmarks.harness import Line, arguments, interleaved, ratio, report, sizes
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.search import rescored, set_threads

KEYS, CALLS, K = (2_000, 10_000, 38_000, 100_000), (5, 40, 320), 8
QUERIES = 320


def measure(counts: Sequence[int], calls: Sequence[int], dim: int, repeats: int) -> Iterator[Line]:
    set_threads(torch.get_num_threads())
    queries = keys.queries(QUERIES, dim)
    for count in counts:
        entries = keys.store(count, dim).entries
        ours, table = ExactSearcher(entries), entries.table()
        rows = np.concatenate([block for _, block in entries.blocks(count)])

        def plain(asked: np.ndarray, rows: np.ndarray = rows) -> tuple[np.ndarray, np.ndarray]:
            return faiss.knn(asked, rows, K)

        def true_distances(asked: np.ndarray, rows: np.ndarray = rows, table=table) -> tuple[np.ndarray, np.ndarray]:
            return rescored(table, asked, faiss.knn(asked, rows, K)[1], K)

        for size in calls:
            searches = {"ours": lambda asked, ours=ours: ours.search(asked, K), "faiss.knn": plain}
            searches["faiss.knn, true distances"] = true_distances
            ways = {name: asking(search, queries, size) for name, search in searches.items()}
            times = interleaved(ways, repeats)
            for name in ("faiss.knn", "faiss.knn, true distances"):
                value, note = ratio(times, name, "ours")
                yield Line(f"exact, {count:,} keys, {size} a call: {name} / ours", value, note=note)


def asking(search: Callable[[np.ndarray], object], queries: np.ndarray, size: int) -> Callable[[], None]:
    """All queries, ``size`` of them in each call."""

    def run() -> None:
        for start in range(0, len(queries), size):
            search(queries[start : start + size])

    return run


def main() -> bool:
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--keys", type=sizes, default=KEYS, help="keys in the store, separated by commas")
    parser.add_argument("--calls", type=sizes, default=CALLS, help="queries in a call, separated by commas")
    parser.add_argument("--dim", type=int, default=256, help="dimensions of a key")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    measured = lambda: measure(options.keys, options.calls, options.dim, options.repeats)  # noqa: E731
    return report("exact", measured, options.json)


if __name__ == "__main__":
    sys.exit(not main())
