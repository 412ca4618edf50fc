"""What tuning costs, and what it misses: k, λ, T, the length penalty and the gate, as `npda tune` chooses them.

    python -m benchmarks.tune
    python -m benchmarks.tune --brute 0            # without the comparison with everything decoded, which takes longest
    python -m benchmarks.tune --beam 1 --brute 200 # the same for greedy search, in a fraction of the time

The shipped model, a counter-store of general text, a store of parliament's text, dev sentences that are read. The cost
is that of all of tuning, the gate and the general sentences included, over one translation of the dev set with the
store; of the general sentences there are as many as of the domain's.

The choice is compared with that of decoding everything: all points of the paper's grid with all length penalties,
behind the same gate, and the best mean of BLEU and chrF, smoothed and bounded as in tuning. Both choose on one half of
the dev set and are judged on the other: on what it was chosen on, the best of so many settings is also the luckiest.
The halves are drawn several times, and the figures are means.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.harness import Line, arguments, interleaved, ratio, report
from benchmarks.parliament import shipped, text_store
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.datastore.counter import build_counter
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.climb import Space
from npda.evaluation.tuning.folds import split
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.likelihood import Grid
from npda.evaluation.tuning.objective import Outcome, Setting, smoothed
from npda.evaluation.tuning.search import LENGTH_PENALTIES, Tuning, store_text, tune
from npda.io.progress import track

TIME, BLEU, CHRF = 10.0, 0.3, 0.5
SPLITS = 4  # of the dev set into halves
_ANOTHER_SEED = 1_000  # of the corpus: general text that is in none of its splits
SPACE = Space(length_penalties=LENGTH_PENALTIES)


class Bench:
    """The model, its counter-store and a store of parliament's text. search: how to decode"""

    def __init__(self, folder: Path, search: SearchOptions) -> None:
        self.search, self.backbone = search, shipped()
        self.store: Datastore = text_store(self.backbone, folder / "store")
        self.dev: Sequence[Pair] = sentences("parliament", "dev")
        general = sentences("general", "train", seed=_ANOTHER_SEED), sentences("general", "dev")
        options = BuildOptions(progress=False)
        self.counter = build_counter(self.backbone, general[0], folder / "counter", general[1], options)

    def guarding(self, count: int) -> Guarding:
        general = DevSet(self.backbone, self.counter.held_out[:count], "text")
        return Guarding(self.store, self.counter.store, general, self.search)

    def tune(self, dev: Sequence[Pair], guarding: Guarding) -> Tuning:
        options = {"space": SPACE, "progress": False, "guarding": guarding}
        return tune(self.backbone, self.store, dev, "text", self.search, **options)


class Everything:
    """The translations of a dev set with whatever setting, each made once.

    guarding: with the gate behind which all of them are
    """

    def __init__(self, bench: Bench, count: int, guarding: Guarding) -> None:
        self._bench, self._guarding = bench, guarding
        self._devset = DevSet(bench.backbone, bench.dev[:count], "text")
        self._remembering = CachingRetriever(bench.store, Grid().largest_k)
        self._text = store_text(bench.store)
        self._alone = self._devset.translations(bench.search)
        self._made: dict[Setting, list[str]] = {}

    def outcome(self, setting: Setting | None, places: np.ndarray) -> Outcome:
        """On some of the sentences; of the model alone without a setting."""
        texts = self._alone if setting is None else self._translations(setting)
        ours, references = ([column[place] for place in places] for column in (texts, self._devset.references))
        return Outcome.of(ours, references, self._text)

    def best(self, grid: Grid, places: np.ndarray) -> Setting:
        """By the value that tuning chooses by."""
        base, values = self.outcome(None, places), {}
        for setting in self._settings(grid):
            outcome = self.outcome(setting, places)
            values[setting] = outcome.mean, outcome.value(base)

        def smooth(setting: Setting) -> float:
            knn = setting.knn
            beside = [
                values[other][0]
                for lambda_ in grid.lambda_.beside(knn.lambda_)
                for other in [Setting(KnnOptions(knn.k, lambda_, knn.temperature), setting.length_penalty, 0.0)]
            ]
            mean, value = values[setting]
            return smoothed(mean, beside) - (mean - value)

        return max(values, key=smooth)

    def decode(self, grid: Grid) -> None:
        for setting in track(list(self._settings(grid)), "decoding everything"):
            self._translations(setting)

    @staticmethod
    def _settings(grid: Grid) -> Iterator[Setting]:
        for penalty in LENGTH_PENALTIES:
            for point in grid.points():
                yield Setting(point, penalty, 0.0)  # behind a gate the end is the model's

    def _translations(self, setting: Setting) -> list[str]:
        if setting not in self._made:
            fusion = self._guarding.fuse(self._remembering, setting.knn, setting)
            self._made[setting] = self._devset.translations(self._bench.search, [fusion])
        return self._made[setting]


def measure(count: int, brute: int, repeats: int, beam: int, folder: Path) -> Iterator[Line]:
    bench = Bench(folder, SearchOptions(beam))

    def decode() -> list[str]:
        fusion = KnnFusion(bench.store, KnnOptions())
        return DevSet(bench.backbone, bench.dev[:count], "text").translations(bench.search, [fusion])

    ways = {"tuning": lambda: bench.tune(bench.dev[:count], bench.guarding(count)), "one decode": decode}
    value, note = ratio(interleaved(ways, repeats), "tuning", "one decode")
    yield Line(f"tune, {count} sentences: all of it / one decode", value, TIME, most=True, note=note)
    if brute:
        yield from compare(bench, brute)


def compare(bench: Bench, count: int) -> Iterator[Line]:
    """What is lost by not decoding everything."""
    guarding = bench.guarding(count)
    whole = bench.tune(bench.dev[:count], guarding)
    everything, grid = Everything(bench, count, guarding), Grid().scaled(whole.factor)
    everything.decode(grid)
    lost, decodes = [], []
    for number in range(SPLITS):
        halves = split(count, 2, seed=number)
        for here, there in (halves, halves[::-1]):
            chosen = bench.tune([bench.dev[place] for place in here], bench.guarding(count // 2))
            best = everything.outcome(everything.best(grid, here), there)
            ours = everything.outcome(None if chosen.best.is_inactive else chosen.setting, there)
            lost.append((best.bleu - ours.bleu, best.chrf - ours.chrf))
            decodes.append(len(chosen.decoded))
    for name, values, bar in zip(("BLEU", "chrF"), np.array(lost).T, (BLEU, CHRF), strict=True):
        each = ", ".join(f"{value:.2f}" for value in values)
        note = f"{np.mean(decodes):.1f} of {3 * len(grid.points())} settings decoded; each: {each}"
        title = f"tune, {count} sentences: {name} lost on the other half"
        yield Line(title, float(values.mean()), bar, most=True, note=note)


def main() -> bool:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--brute", type=int, default=200, help="sentences on which everything is decoded")
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with TemporaryDirectory() as folder:
        chosen = options.sentences, options.brute, options.repeats, options.beam
        return report("tune", lambda: measure(*chosen, Path(folder)), options.json)


if __name__ == "__main__":
    sys.exit(not main())
