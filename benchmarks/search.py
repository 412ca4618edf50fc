"""Which index: the paper's against others on the same keys, in recall, memory, building and time.

    python -m benchmarks.search
    python -m benchmarks.search --keys 100000 --only paper,auto

Keys are made up (see ``benchmarks/keys.py``); all but the paper's index compare their candidates again with the keys
themselves. Recall is the share of the true 8 nearest keys, of states that are no keys. Memory is that of the whole
index, mapped or not, and of the values; tables that Faiss makes for the paper's codes, half a gigabyte, are left out,
and so are the keys, of which a search reads a few. Building is all that ``npda build`` does after the keys are there,
in time of the processor; the paper's index is trained by Faiss's own k-means as in the paper's public code, but on 40
keys a centroid as all others, where that code takes up to a million keys, three times as many: what is said of building
is in its favour. Stores and indexes are kept in the cache with the time they took.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks import keys
from benchmarks.harness import Line, arguments, asking, interleaved, report
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.spec import choose
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.store import Datastore

KEYS, QUERIES, K = 1_200_000, 240, 8
CALLS = 5, 40, 80  # queries a call: the beams of 1, 8 and 16 sentences
VALUE = 4  # bytes, beside the index
RECALL, BYTES, BUILD, MILLISECONDS = 0.95, 48.0, 0.5, 0.3


@dataclass(frozen=True)
class Candidate:
    """asked: as for ``npda build --index``, LISTS is as many inverted lists as auto takes; nprobe, rerank: its usual"""

    asked: str
    nprobe: int | None = None
    rerank: int | None = None


CANDIDATES = {
    "paper": Candidate("paper"),
    "auto": Candidate("auto"),
    "paper re-ranked": Candidate("paper", rerank=5),
    "turned at random": Candidate("PCAR128,IVFLISTS,PQ64x4fs", 16, 5),
    "scanned 16 bytes": Candidate("PCA128,IVFLISTS,PQ32x4fs", 16, 5),
    "residual 16 bytes": Candidate("PCA64,IVFLISTS,PQ32x4fsr", 16, 5),
    "no main directions": Candidate("IVFLISTS,PQ64x4fs", 16, 5),
    "HNSW finds the lists": Candidate("PCA128,IVFLISTS_HNSW32,PQ64x4fs", 16, 5),
    "OPQ": Candidate("OPQ64_128,IVFLISTS,PQ64x4fs", 16, 5),
    "a byte a dimension": Candidate("IVFLISTS,SQ8", 16, 2),
    "RaBitQ": Candidate("IVFLISTS,RaBitQfs", 16, 5),
}


@dataclass(frozen=True)
class Opened:
    """store: with its index; ram: bytes a key; seconds: that building took"""

    store: Datastore
    retriever: LocalRetriever
    ram: float
    seconds: float


def opened(unindexed: Datastore, candidate: Candidate) -> Opened:
    lists = choose("auto", len(unindexed), unindexed.dim).factory.partition("IVF")[2].partition(",")[0]
    asked = candidate.asked.replace("LISTS", lists)
    store, seconds = keys.indexed(unindexed, asked, candidate.nprobe, candidate.rerank)
    index = store.info.index
    held = 4.0 * store.dim if index.directory is None else index.bytes_per_key
    return Opened(store, LocalRetriever(store, threads=torch.get_num_threads()), held + VALUE, seconds)


def recall(retriever: LocalRetriever, queries: np.ndarray, truth: np.ndarray) -> float:
    """truth: [n, K] ids"""
    found = retriever.search(queries, K).ids
    return float(np.mean([np.isin(true, row).mean() for true, row in zip(truth, found, strict=True)]))


def measure(count: int, only: Sequence[str], repeats: int) -> Iterator[Line]:
    unindexed, queries = keys.store(count), keys.queries(QUERIES)
    truth = ExactSearcher(unindexed.entries).search(queries, K)[1]
    ways = {name: opened(unindexed, CANDIDATES[name]) for name in only}
    for name, way in ways.items():
        bars = (RECALL, BYTES, BUILD) if name == "auto" else (None, None, None)
        factory = way.store.info.index.factory
        yield Line(f"search, {name}: recall@{K}", recall(way.retriever, queries, truth), bars[0], note=factory)
        yield Line(f"search, {name}: bytes of memory a key", way.ram, bars[1], most=True)
        if "paper" in ways and not name.startswith("paper"):
            plain = ways["paper"].seconds
            note = f"{way.seconds:.0f} s, paper {plain:.0f} s"
            yield Line(f"search, {name}: building / paper's", way.seconds / plain, bars[2], most=True, note=note)
    for size in CALLS:
        times = interleaved({name: asking(way.retriever, queries, size, K) for name, way in ways.items()}, repeats)
        for name, timing in times.items():
            bar = MILLISECONDS if name == "auto" else None
            per_query = 1e3 * timing.cpu / len(queries)
            yield Line(f"search, {name}: ms a query, {size} a call", per_query, bar, most=True)


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CANDIDATES), help="names, by comma")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return report("search", lambda: measure(options.keys, options.only, options.repeats), options.json)


if __name__ == "__main__":
    sys.exit(not main())
