"""Searches that can be left out: BLEU by the share of them, and the share that a dev set allows.

    python -m benchmarks.skip
    python -m benchmarks.skip --way text       # sentences are read, not heard
    python -m benchmarks.skip --seed 1         # other sentences: a few hundred tell BLEU to some 0.3 only

The shipped model and a store of parliament's text; k, λ, T, how near a followed key has to be and the gate are chosen
on dev, everything printed is of the test set, and the bars are for following. Hypotheses of one state are searched for
once anyway: they are counted apart, and in no other share. So are states that are, but for the last digits, those of an
earlier step or sentence, which is what a cache of answers would save.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch

from benchmarks.harness import Line, arguments, interleaved, ratio, report
from benchmarks.parliament import held_out, shipped, text_store
from npda.datastore.remembering import RememberingRetriever
from npda.decoding.beam import SearchOptions
from npda.decoding.following import FollowingFusion
from npda.decoding.fusion import Fusion
from npda.decoding.knn import KnnFusion
from npda.decoding.skipping import Gate, SkippingFusion, SureGate
from npda.evaluation.adaptive import observe, set_share, sure_enough, tune_gate
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.following import tune_following
from npda.evaluation.scores import bleu
from npda.evaluation.tuning import tune

SHARE, BLEU = 0.5, 0.2
CURVE = 0.25, 0.5, 0.75  # of dev, for the gates


def measure(way: Way, count: int, seed: int, repeats: int, folder: Path) -> Iterator[Line]:
    backbone, search = shipped(), SearchOptions()
    store = text_store(backbone, folder / "store", seed)
    dev, test = (held_out(way, split, count, seed) for split in ("dev", "test"))
    tuned = tune(backbone, store, dev, way, search, progress=False).best
    heard, judged = DevSet(backbone, dev, way), DevSet(backbone, test, way)
    fusion = KnnFusion(store, tuned)

    def score(fusion: Fusion) -> float:
        return bleu(judged.translations(search, [fusion]), judged.references).value

    remembering = RememberingRetriever(store, tuned.k)
    all_rows = SkippingFusion(KnnFusion(remembering, tuned), SureGate(2.0))  # lets everybody through
    score(all_rows)
    alike, note = 1 - remembering.asked / all_rows.asked, f"{all_rows.asked} hypotheses"
    yield Line("skip: share of hypotheses alike", alike, note=note)
    yield Line("skip: share of states asked for before", remembering.share_known, note=f"{remembering.asked} states")

    full, chosen = score(fusion), tune_following(heard, store, tuned, search)
    following = FollowingFusion(store, tuned, chosen.best.options)
    lost, share = full - score(following), following.share_followed
    note = f"{chosen.best.share:.0%} of dev, BLEU {full:.2f} with all"
    yield Line("skip: share of the searches", share, SHARE, note=note)
    yield Line("skip: BLEU lost", lost, BLEU, most=True, note=f"{chosen.full_bleu - chosen.best.bleu:.2f} on dev")
    ways = {
        "following": lambda: judged.translations(search, [following]),
        "searching": lambda: judged.translations(search, [fusion]),
    }
    spent, note = ratio(interleaved(ways, repeats), "following", "searching")
    yield Line("skip: time of following over searching", spent, note=note)
    for followed in chosen.decoded[1:]:
        other = FollowingFusion(store, tuned, followed.options)
        name, lost = f"skip, following at {followed.share:.0%} of dev: BLEU lost", full - score(other)
        note = f"{other.share_followed:.0%} of test, {chosen.full_bleu - followed.bleu:.2f} on dev"
        yield Line(name, lost, note=note)

    def gated(name: str, gate: Gate) -> Line:
        skipping = SkippingFusion(fusion, gate)
        lost = full - score(skipping)
        return Line(f"skip, {name}: BLEU lost", lost, note=f"{skipping.share_skipped:.0%} of test")

    observed, tuned_gate = observe(heard, store, tuned.k), tune_gate(heard, store, tuned, search)
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
    parser.add_argument("--seed", type=int, default=0, help="of the corpus: other sentences, other voices")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        lines = measure(options.way, options.sentences, options.seed, options.repeats, Path(folder))
        return report("skip", lambda: lines, options.json)


if __name__ == "__main__":
    sys.exit(not main())
