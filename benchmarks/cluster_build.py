"""Building a store with one and two workers of a Ray cluster, against building without it on as many threads.

    python -m benchmarks.cluster_build

All machines of the cluster are this one. The model and the text are those of ``build``, there is no index. Workers are
other processes, so that ratios are of the clock, and a busy machine moves them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.build import model
from benchmarks.harness import Line, arguments, interleaved, report
from benchmarks.small_cluster import small_cluster
from npda.cluster.crew import ClusterOptions, crew
from npda.corpus.mini.grammar import sentences
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore

BAR = 0.9  # tokens/s over those without a cluster


def measure(size: int, chunk: int, repeats: int, folder: Path) -> Iterator[Line]:
    backbone, pairs, number = model(), sentences("parliament", "train")[:size], count()
    backbone.save_pretrained(folder / "model")
    options = BuildOptions("exact", chunk=chunk, progress=False)

    def build(options: BuildOptions, threads: int) -> None:
        torch.set_num_threads(threads)
        Datastore.build(backbone, pairs, folder / f"{next(number)}", options=options)

    for workers in (1, 2):
        torch.set_num_threads(1)
        with (
            small_cluster(workers) as address,
            crew(ClusterOptions(address, cpus=1), folder / "model", None, backbone) as hired,
        ):
            ways = {
                "plain": lambda workers=workers: build(options, workers),
                "cluster": lambda hired=hired: build(replace(options, workers=hired), 1),
            }
            times = interleaved(ways, repeats)
        plain, cluster = times["plain"].wall, times["cluster"].wall
        note = f"plain {plain:.2f} s, cluster {cluster:.2f} s by the clock"
        name = f"cluster build, {size} sentences: tokens/s of {workers} worker(s) over {workers} thread(s)"
        yield Line(name, plain / cluster, BAR, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--sentences", type=int, default=1_000)
    parser.add_argument("--chunk", type=int, default=125, help="sentences a shard: at least two for each worker")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        given = options.sentences, options.chunk, options.repeats, Path(folder)
        return report("cluster build", lambda: measure(*given), options.json)


if __name__ == "__main__":
    sys.exit(not main())
