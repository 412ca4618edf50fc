"""What tuning k, λ and T costs: the paper's 216 points against one translation of the dev set with a store.

    python -m benchmarks.tune
    python -m benchmarks.tune --brute 0        # without the comparison with all points decoded, which takes longest

The shipped model, a store of parliament's text, dev sentences that are read. The choice is compared with the best of
all 216 points, each of them decoded, on the whole dev set: on a few dozen sentences the best of so many points is a
matter of luck, one translation moves it by more than the bar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.harness import Line, arguments, interleaved, ratio, report
from benchmarks.parliament import shipped, text_store
from npda.corpus.mini.grammar import sentences
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.likelihood import Grid
from npda.evaluation.tuning.objective import Outcome
from npda.evaluation.tuning.search import tune
from npda.models.backbone import Backbone

TIME, POINTS = 10.0, 0.3


def measure(count: int, brute: int, repeats: int, folder: Path) -> Iterator[Line]:
    backbone, search = shipped(), SearchOptions()
    store, dev = text_store(backbone, folder / "store"), sentences("parliament", "dev")

    def decode() -> list[str]:
        return DevSet(backbone, dev[:count], "text").translations(search, [KnnFusion(store, KnnOptions())])

    ways = {
        "tuning": lambda: tune(backbone, store, dev[:count], "text", search, progress=False),
        "one decode": decode,
    }
    value, note = ratio(interleaved(ways, repeats), "tuning", "one decode")
    yield Line(f"tune, {count} sentences: 216 points / one decode", value, TIME, most=True, note=note)
    if brute:
        chosen = tune(backbone, store, dev[:brute], "text", search, progress=False)
        best = best_of_all(backbone, store, DevSet(backbone, dev[:brute], "text"), search, chosen.factor)
        mean = chosen.outcome.mean
        note = f"{best:.2f} of all points, {mean:.2f} chosen, {len(chosen.decoded)} decoded"
        yield Line(f"tune, {brute} sentences: BLEU and chrF below the best", best - mean, POINTS, most=True, note=note)


def best_of_all(backbone: Backbone, store: Datastore, devset: DevSet, search: SearchOptions, factor: float) -> float:
    """Mean of BLEU and chrF at the best point of the grid. factor: of its temperatures"""
    grid = Grid().scaled(factor)
    remembering = CachingRetriever(store, grid.largest_k)
    return max(
        Outcome.of(devset.translations(search, [KnnFusion(remembering, point)]), devset.references).mean
        for point in grid.points()
    )


def main() -> bool:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--brute", type=int, default=200, help="sentences on which all points are decoded")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        counts = options.sentences, options.brute, options.repeats
        return report("tune", lambda: measure(*counts, Path(folder)), options.json)


if __name__ == "__main__":
    sys.exit(not main())
