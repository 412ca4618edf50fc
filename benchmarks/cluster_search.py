"""Searching a store in 2 and 4 parts, held by actors of a Ray cluster, against searching it in this process.

    python -m benchmarks.cluster_search
    python -m benchmarks.cluster_search --keys 20000000    # 15 GB of disk, 2 GB of memory

Milliseconds of a step with 5, 40 and 320 queries, k 16, and the time of beam search at batch 8 with the store held
either way. All machines of the cluster are this one: parts share its cores, so that nothing gets faster, and what is
added is the cost of asking. Ratios are of the clock, as the actors are other processes.

The figures of single parts, which ``cluster_model`` starts from, go to --figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks import keys
from benchmarks.decode import model, ours, speech
from benchmarks.harness import Line, Result, Skipped, arguments, asking, interleaved, report, sizes
from benchmarks.knn_decode import K, Placed
from benchmarks.search import KEYS
from benchmarks.small_cluster import small_cluster
from npda.cluster.part import PartSearcher, merged, ranges
from npda.cluster.search import SearchOnCluster, spread
from npda.datastore.format import SHARDS, write_info
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.store import Datastore
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion

BAR = 1.25  # decoding with parts over decoding with the store here, batch 8
QUERIES = 5, 40, 320
CALLS = 20  # of every size in a round


class Echo:
    """An actor that answers with as much as a part does."""

    def search(self, queries: np.ndarray, candidates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        floats = np.zeros((len(queries), candidates), np.float32)
        return floats, np.zeros((len(queries), candidates), np.int64), floats


def measure(count: int, parts: Sequence[int], repeats: int, figures: Path | None) -> Iterator[Result]:
    if lack := keys.lack_of_disk(count):
        yield Skipped("cluster search", lack)
        return
    indexed, _ = keys.indexed(keys.store(count), "auto")
    with TemporaryDirectory() as folder:
        yield from _measured(_for_all(indexed, Path(folder) / "store"), parts, repeats, figures)


def _for_all(indexed: Datastore, path: Path) -> Datastore:
    """The store as other processes open it; its files stay where they are."""
    path.mkdir()
    for name in (SHARDS, indexed.info.index.directory):
        assert name is not None  # it has an index
        (path / name).symlink_to(indexed.path / name)
    write_info(path, indexed.info)
    return Datastore.open(path)


def _measured(store: Datastore, parts: Sequence[int], repeats: int, figures: Path | None) -> Iterator[Result]:
    count, states = len(store), keys.queries(320)
    found: dict[str, Any] = {"keys": count, "k": K, "measured": {}, "single": {}, "local": {}}
    local = LocalRetriever(store, threads=torch.get_num_threads())
    for number in parts:
        found["single"][str(number)] = _single(store, number, states, repeats)
        with (
            small_cluster(number) as address,
            spread([store], address, SearchOnCluster(parts=number)) as (held,),
        ):
            if "asking" not in found:
                found["asking"] = _asking(store, states, repeats)
            for size in QUERIES:
                asked = np.tile(states[:size], (CALLS, 1))
                times = interleaved(
                    {"here": asking(local, asked, size, K), "parts": asking(held, asked, size, K)}, repeats
                )
                here, there = (1000 * times[name].wall / CALLS for name in ("here", "parts"))
                found["local"][str(size)] = here
                found["measured"].setdefault(str(number), {})[str(size)] = there
                note = f"{there:.2f} ms a step, here {here:.2f} ms"
                yield Line(f"cluster search, {number} parts, {size} queries: ms over here", there / here, note=note)
            yield _decoding(local, held, number, repeats)
    if figures is not None:
        figures.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _single(store: Datastore, number: int, states: np.ndarray, repeats: int) -> dict[str, list[float]]:
    """Milliseconds in which one part answers, and all answers are merged, without a cluster."""
    part = PartSearcher(store, *ranges(store.entries, number)[0], threads=1)
    answers = {size: part.search(states[:size], K) for size in QUERIES}
    searching = {str(size): lambda size=size: part.search(states[:size], K) for size in QUERIES}
    rerank = store.info.index.rerank
    joining = {str(size): lambda size=size: merged([answers[size]] * number, K, rerank) for size in QUERIES}
    found = {}
    for size in map(str, QUERIES):
        search = interleaved({"way": lambda size=size: [searching[size]() for _ in range(CALLS)]}, repeats)["way"].wall
        join = interleaved({"way": lambda size=size: [joining[size]() for _ in range(CALLS)]}, repeats)["way"].wall
        found[size] = [1000 * search / CALLS, 1000 * join / CALLS]
    return found


def _asking(store: Datastore, states: np.ndarray, repeats: int) -> dict[str, float]:
    """Milliseconds of a call to one actor that computes nothing."""
    import ray

    actor: Any = ray.remote(Echo).options(num_cpus=0).remote()
    candidates = K * max(1, store.info.index.rerank)
    found = {}
    for size in QUERIES:
        calls = lambda size=size: [ray.get(actor.search.remote(states[:size], candidates)) for _ in range(CALLS)]  # noqa: E731
        found[str(size)] = 1000 * interleaved({"way": calls}, repeats)["way"].wall / CALLS
    ray.kill(actor)
    return found


def _decoding(local: LocalRetriever, held: Datastore, number: int, repeats: int) -> Line:
    features, fast = speech(8), model()
    there = LocalRetriever(held)  # asks the parts
    ways = {
        "here": lambda: ours(fast, features, [KnnFusion(Placed(local), KnnOptions(K))]),
        "parts": lambda: ours(fast, features, [KnnFusion(Placed(there), KnnOptions(K))]),
    }
    times = interleaved(ways, repeats)
    note = f"parts {times['parts'].wall:.2f} s, here {times['here'].wall:.2f} s by the clock"
    name = f"cluster decode, {number} parts, batch 8: with parts / with the store here"
    return Line(name, times["parts"].wall / times["here"].wall, BAR, most=True, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--parts", type=sizes, default=[2, 4])
    parser.add_argument("--figures", type=Path, help="file for the figures of single parts")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    given = options.keys, options.parts, options.repeats, options.figures
    return report("cluster search", lambda: measure(*given), options.json)


if __name__ == "__main__":
    sys.exit(not main())
