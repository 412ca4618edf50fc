"""Searches that can be left out: BLEU by the share of them, and the share that a dev set allows.

    python -m benchmarks.skip
    python -m benchmarks.skip --way text       # sentences are read, not heard

The shipped model and a store of parliament's text; k, λ, T and the gate are chosen on dev, everything printed is of the
test set. Beside it the share of states that are, but for the last digits, those of an earlier step or sentence: what a
cache of answers would save.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np
import torch

from benchmarks.harness import Line, arguments, report
from benchmarks.parliament import shipped, text_store
from npda.corpus import mini
from npda.corpus.manifest import Utterance, read_manifest
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.datastore.retrieval import Neighbours
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn import KnnFusion
from npda.decoding.skipping import Gate, SkippingFusion, SureGate
from npda.evaluation.adaptive import observe, set_share, sure_enough, tune_gate
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.remembering import RememberingRetriever
from npda.evaluation.scores import bleu
from npda.evaluation.tuning import tune

SHARE, BLEU = 0.5, 0.2
CURVE = 0.25, 0.5, 0.75


class Counting:
    """A store and how many states it was asked for."""

    def __init__(self, store: Datastore) -> None:
        self.store, self.rows = store, 0

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        self.rows += len(queries)
        return self.store.search(queries, k)


def spoken_or_written(way: Way, split: str, count: int) -> list[Utterance] | list[Pair]:
    if way == "text":
        return sentences("parliament", split)[:count]
    corpus = mini.prepare(progress=False, only=[("parliament", split)])
    return read_manifest(corpus.manifest("parliament", split))[:count]


def measure(way: Way, count: int, folder: Path) -> Iterator[Line]:
    backbone, search = shipped(), SearchOptions()
    store = text_store(backbone, folder / "store")
    dev, test = (spoken_or_written(way, split, count) for split in ("dev", "test"))
    tuned = tune(backbone, store, dev, way, search, progress=False).best
    heard, judged = DevSet(backbone, dev, way), DevSet(backbone, test, way)
    fusion = KnnFusion(store, tuned)

    def score(fusion: Fusion) -> float:
        return bleu(judged.translations(search, [fusion]), judged.references).value

    asked, new = SkippingFusion(fusion, SureGate(2.0)), Counting(store)
    full = score(asked)
    asked.fusion, asked.asked = KnnFusion(RememberingRetriever(new, tuned.k), tuned), 0
    score(asked)
    yield Line("skip: share of states asked for before", 1 - new.rows / asked.asked, note=f"{asked.asked} states")

    def skipped(gate: Gate) -> tuple[float, float]:
        """Share of the searches, and BLEU lost."""
        skipping = SkippingFusion(fusion, gate)
        lost = full - score(skipping)
        return skipping.share_skipped, lost

    observed, chosen = observe(heard, store, tuned.k), tune_gate(heard, store, tuned, search)
    share, lost = skipped(chosen.gate)
    yield Line("skip: share of the searches", share, SHARE, note=f"{chosen.share:.0%} of dev, BLEU {full:.2f} with all")
    yield Line("skip: BLEU lost", lost, BLEU, most=True, note=f"{chosen.full_bleu - chosen.bleu:.2f} on dev")
    for wanted in CURVE:
        set_share(chosen.gate, observed, wanted)
        gates = {"learned": cast(Gate, chosen.gate), "sure": SureGate(sure_enough(observed, wanted))}
        for name, gate in gates.items():
            share, lost = skipped(gate)
            yield Line(f"skip, {name} gate at {wanted:.0%} of dev: BLEU lost", lost, note=f"{share:.0%} of test")


def main() -> bool:
    parser = arguments(__doc__)
    parser.add_argument("--way", choices=["speech", "text"], default="speech")
    parser.add_argument("--sentences", type=int, default=300, help="of dev and of test")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        return report("skip", lambda: measure(options.way, options.sentences, Path(folder)), options.json)


if __name__ == "__main__":
    sys.exit(not main())
