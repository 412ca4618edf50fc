"""Searches that can be left out: the share of them that a dev set allows, and the BLEU that is lost by it.

    python -m benchmarks.skip
    python -m benchmarks.skip --way text           # sentences are read, not heard
    python -m benchmarks.skip --seeds 21,22        # other sentences, other voices

The shipped model and a store of parliament's text; k, λ, T, how near a followed key has to be and the gate are chosen
on dev, everything printed is of the test set. Three hundred sentences tell BLEU to some 0.3 only: the bars are for the
mean over several draws of the corpus. The rest is of the first draw. Hypotheses of one state are searched for once
anyway: they are counted apart, and in no other share. So are states that are, but for the last digits, those of an
earlier step or sentence, which is what a cache of answers would save.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import cast

import torch

from benchmarks.harness import Line, arguments, interleaved, ratio, report, sizes
from benchmarks.parliament import held_out, shipped, text_store
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.following import FollowingFusion
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.skipping import Gate, SkippingFusion, SureGate
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.adaptive import observe, set_share, sure_enough, tune_gate
from npda.evaluation.tuning.following import tune_following
from npda.evaluation.tuning.search import tune

SHARE, BLEU = 0.5, 0.2
SEEDS = list(range(21, 31))
CURVE = 0.25, 0.5, 0.75  # of dev, for the gates
SEARCH = SearchOptions()


@dataclass(frozen=True)
class Draw:
    """A draw of the corpus, its store and what was tuned on its dev set."""

    store: Datastore
    tuned: KnnOptions
    dev: DevSet
    test: DevSet

    @classmethod
    def make(cls, seed: int, way: Way, count: int, folder: Path) -> Draw:
        backbone = shipped()
        store = text_store(backbone, folder / str(seed), seed)
        dev, test = (held_out(way, split, count, seed) for split in ("dev", "test"))
        tuned = tune(backbone, store, dev, way, SEARCH, progress=False).best
        return cls(store, tuned, DevSet(backbone, dev, way), DevSet(backbone, test, way))

    @cached_property
    def full(self) -> float:
        """BLEU with every search."""
        return self.score(KnnFusion(self.store, self.tuned))

    def score(self, fusion: Fusion) -> float:
        return bleu(self.test.translations(SEARCH, [fusion]), self.test.references).value


def measure(way: Way, count: int, seeds: Sequence[int], repeats: int, folder: Path) -> Iterator[Line]:
    shares, losses = [], []
    for seed in seeds:
        draw = Draw.make(seed, way, count, folder)
        chosen = tune_following(draw.dev, draw.store, draw.tuned, SEARCH).best
        following = FollowingFusion(draw.store, draw.tuned, chosen.options)
        losses.append(draw.full - draw.score(following))
        shares.append(following.share_followed)
        note = f"{shares[-1]:.0%} left out, {chosen.share:.0%} of dev, where {chosen.changed:.1%} of the texts change"
        yield Line(f"skip, seed {seed}: BLEU lost, of {draw.full:.1f}", losses[-1], note=note)
        if seed == seeds[0]:
            yield from in_detail(draw, following, repeats)
    spread = f"{len(seeds)} draws, standard deviation "
    yield Line("skip: share of the searches", fmean(shares), SHARE, note=f"{spread}{deviation(shares):.2f}")
    yield Line("skip: BLEU lost", fmean(losses), BLEU, most=True, note=f"{spread}{deviation(losses):.2f}")


def deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def in_detail(draw: Draw, following: FollowingFusion, repeats: int) -> Iterator[Line]:
    """What equal and repeated states save, what following costs, and what gates would do."""
    fusion, remembering = KnnFusion(draw.store, draw.tuned), CachingRetriever(draw.store, draw.tuned.k)
    all_rows = SkippingFusion(KnnFusion(remembering, draw.tuned), SureGate(2.0))  # lets everybody through
    draw.score(all_rows)
    alike, note = 1 - remembering.asked / all_rows.asked, f"{all_rows.asked} hypotheses"
    yield Line("skip: share of hypotheses alike", alike, note=note)
    yield Line("skip: share of states asked for before", remembering.share_known, note=f"{remembering.asked} states")
    ways = {
        "following": lambda: draw.test.translations(SEARCH, [following]),
        "searching": lambda: draw.test.translations(SEARCH, [fusion]),
    }
    spent, note = ratio(interleaved(ways, repeats), "following", "searching")
    yield Line("skip: time of following over searching", spent, note=note)

    def gated(name: str, gate: Gate) -> Line:
        skipping = SkippingFusion(fusion, gate)
        lost = draw.full - draw.score(skipping)
        return Line(f"skip, {name}: BLEU lost", lost, note=f"{skipping.share_skipped:.0%} of test")

    observed = observe(draw.dev, draw.store, draw.tuned.k)
    tuned_gate = tune_gate(draw.dev, draw.store, draw.tuned, SEARCH)
    gate = cast(Gate, tuned_gate.gate)
    yield gated(f"learned gate, chosen {tuned_gate.share:.0%} of dev", gate)
    for wanted in CURVE:
        set_share(tuned_gate.gate, observed, wanted)
        yield gated(f"learned gate at {wanted:.0%} of dev", gate)
        yield gated(f"sure gate at {wanted:.0%} of dev", SureGate(sure_enough(observed, wanted)))


def main() -> bool:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--way", choices=["speech", "text"], default="speech")
    parser.add_argument("--sentences", type=int, default=300, help="of dev and of test")
    parser.add_argument("--seeds", type=sizes, default=SEEDS, help="of the corpus: other sentences, other voices")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        lines = measure(options.way, options.sentences, options.seeds, options.repeats, Path(folder))
        return report("skip", lambda: lines, options.json)


if __name__ == "__main__":
    sys.exit(not main())
