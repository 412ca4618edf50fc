"""Time of a step and memory by the number of keys, with the index that a store of that size gets.

    python -m benchmarks.scaling                                # 10,000 to 20 million keys, 15 GB of disk
    python -m benchmarks.scaling --sizes 10000,40000            # any others
    python -m benchmarks.scaling --plot docs/scaling.png

Keys are made up (see ``benchmarks/keys.py``); 40 states ask at once, as at a step of 8 sentences. An exponent of 1
would be a time that grows with the keys. Sizes for which the disk is too small are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks import keys
from benchmarks.harness import Line, Result, Skipped, arguments, interleaved, report, sizes
from benchmarks.search import CALLS, Candidate, Opened, asking, opened

SIZES = 10_000, 40_000, 160_000, 1_200_000, 20_000_000
STATES = CALLS[1]


def measure(counts: Sequence[int], repeats: int, plot: Path | None) -> Iterator[Result]:
    lacking = {count: lack for count in counts if (lack := keys.lack_of_disk(count))}
    for count, lack in lacking.items():
        yield Skipped(f"scaling, {count:,} keys: ms a step", lack)
    counts = [count for count in counts if count not in lacking]
    queries = keys.queries(4 * STATES)
    stores: list[Opened] = [opened(keys.store(count), Candidate("auto")) for count in counts]
    ways = {f"{count}": asking(store.retriever, queries, STATES) for count, store in zip(counts, stores, strict=True)}
    times = interleaved(ways, repeats)
    spent = [1e3 * times[f"{count}"].cpu * STATES / len(queries) for count in counts]
    memory = [store.ram * count / 2**20 for count, store in zip(counts, stores, strict=True)]
    for count, store, milliseconds, megabytes in zip(counts, stores, spent, memory, strict=True):
        note = f"{megabytes:.0f} MB of memory, {store.ram:.0f} bytes a key, {store.store.info.index.factory}"
        yield Line(f"scaling, {count:,} keys: ms a step", milliseconds, note=note)
    yield Line("scaling: exponent of the time", float(np.polyfit(np.log(counts), np.log(spent), 1)[0]), 1.0, most=True)
    if plot is not None:
        draw(counts, spent, memory, plot)


def draw(counts: Sequence[int], spent: Sequence[float], memory: Sequence[float], path: Path) -> None:
    """spent: ms a step; memory: MB"""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, values, title in ((left, spent, f"ms a step of {STATES} states"), (right, memory, "MB of memory")):
        axes.loglog(counts, values, "o-", label="measured")
        axes.loglog(counts, [values[0] * count / counts[0] for count in counts], ":", color="grey", label="∝ keys")
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("keys")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=90)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--sizes", type=sizes, default=SIZES, help="numbers of keys")
    parser.add_argument("--plot", type=Path, help="file for the plot")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("scaling", lambda: measure(options.sizes, options.repeats, options.plot), options.json)


if __name__ == "__main__":
    sys.exit(not main())
