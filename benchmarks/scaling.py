"""Time of a search and memory by the number of keys, with the index that a store of that size gets.

    python -m benchmarks.scaling                                # 10,000 to 1.28 million keys
    python -m benchmarks.scaling --sizes 10000,20000000         # any others; 20 million take 11 GB of disk
    python -m benchmarks.scaling --plot docs/scaling.svg

Keys are made up (see ``benchmarks/keys.py``); 40 states ask at once, as at a step of 8 sentences. An exponent of 1
would be a time that grows with the keys.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks import keys
from benchmarks.harness import Line, arguments, interleaved, report, sizes
from benchmarks.search import CALLS, Candidate, Opened, asking, opened

SIZES = 10_000, 40_000, 160_000, 640_000, 1_280_000


def measure(counts: Sequence[int], repeats: int, plot: Path | None) -> Iterator[Line]:
    queries = keys.queries(160)
    stores: list[Opened] = [opened(keys.store(count), Candidate("auto")) for count in counts]
    ways = {count: asking(store.retriever, queries, CALLS[1]) for count, store in zip(counts, stores, strict=True)}
    times = interleaved({f"{count}": way for count, way in ways.items()}, repeats)
    spent = [1e3 * times[f"{count}"].cpu / len(queries) for count in counts]
    for count, store, milliseconds in zip(counts, stores, spent, strict=True):
        note = f"{store.ram:.0f} bytes of memory a key, {store.store.info.index.factory}"
        yield Line(f"scaling, {count:,} keys: ms a query", milliseconds, note=note)
    yield Line("scaling: exponent of the time", float(np.polyfit(np.log(counts), np.log(spent), 1)[0]), 1.0, most=True)
    if plot is not None:
        draw(counts, spent, [store.ram * count / 2**20 for count, store in zip(counts, stores, strict=True)], plot)


def draw(counts: Sequence[int], spent: Sequence[float], memory: Sequence[float], path: Path) -> None:
    """spent: ms a query; memory: MB"""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.loglog(counts, spent, "o-", label="ms a query")
    axes.loglog(counts, memory, "s--", label="MB of memory")
    axes.set_xlabel("keys")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--sizes", type=sizes, default=SIZES, help="numbers of keys")
    parser.add_argument("--plot", type=Path, help="file for the plot")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("scaling", lambda: measure(options.sizes, options.repeats, options.plot), options.json)


if __name__ == "__main__":
    sys.exit(not main())
