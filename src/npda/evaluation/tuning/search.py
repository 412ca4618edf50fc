"""Choosing k, λ, T and how the search is to go with them, on held-out sentences.

The likelihood of the references is computed at every point of a grid, which takes one retrieval, and only a few points
are decoded: likelihood is a good guide to k and T, but may ask for a λ at which a search that must live with its own
mistakes derails, so that λ is chosen by what translations are worth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Retriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import Combiner, KnnOptions
from npda.decoding.knn.fusion import EndVotes, KnnFusion
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.faults import StoreText
from npda.evaluation.tuning.climb import Climb, Point, Space, favourite
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.likelihood import DevNeighbours, Grid, gather, log_likelihoods
from npda.evaluation.tuning.objective import Decoded, Outcome, Setting, parameters
from npda.io.errors import InputError
from npda.io.progress import bar
from npda.models.backbone import Backbone

DECODES = 10  # wide and narrow steps along λ, two length penalties, and two more
LENGTH_PENALTIES = 0.6, 1.0, 1.4

# The paper's temperatures, 1 … 200, suit distances of this order: 0.01 … 2 times as large.
USUAL_SCALE = 100.0
_FAR = 8.0  # times smaller or larger than that, and the temperatures are scaled
_KNOWN = 0.5  # share of dev states that may be keys of the store

# How neighbours and the model come together: a store, whose share each neighbour gets, and what else was chosen.
Fuse = Callable[[Retriever, Combiner, Setting], Fusion]


@dataclass(frozen=True)
class Tuning:
    """What was chosen, and why.

    best: λ is 0 if no point was better than the model alone; length_penalty, end_weight: that go with it, see
    ``Setting``; outcome, base: on dev, with the best setting and without a store; value, base_value: what they were
    compared by, the former smoothed over the λ beside it; points: of the whole grid, k by k, λ by λ, T by T; decoded:
    in the order of the search; way: "speech" or "text"; search: as it was given; guarded: whether the store is behind
    a gate; scale: median squared distance to the 8th neighbour; factor: of the paper's temperatures; skipped:
    sentences the model has no room for
    """

    best: KnnOptions
    length_penalty: float
    end_weight: float
    outcome: Outcome
    base: Outcome
    value: float
    base_value: float
    base_log_likelihood: float
    points: tuple[Point, ...]
    decoded: tuple[Decoded, ...]
    way: Way
    search: SearchOptions
    guarded: bool
    scale: float
    factor: float
    sentences: int
    skipped: int
    seconds: float

    @property
    def setting(self) -> Setting:
        return Setting(self.best, self.length_penalty, self.end_weight)

    @property
    def tuned_search(self) -> SearchOptions:
        """The search that goes with the best point. A store behind a gate brings its length penalty itself."""
        return self.search if self.guarded else replace(self.search, length_penalty=self.length_penalty)

    @property
    def bleu(self) -> float:
        return self.outcome.bleu

    @property
    def base_bleu(self) -> float:
        return self.base.bleu

    def plane(self, k: int) -> dict[tuple[float, float], float]:
        """(λ, T) → log-likelihood, for one k of the grid."""
        of_k = (point for point in self.points if point.options.k == k)
        return {(point.options.lambda_, point.options.temperature): point.log_likelihood for point in of_k}

    def record(self) -> dict:
        """For scripts, as JSON."""
        ours, base = self.outcome.record(), self.base.record()
        return {
            "best": self.setting.record(),
            **ours,
            **{f"base_{name}": value for name, value in base.items()},
            "value": round(self.value, 2),
            "base_value": round(self.base_value, 2),
            "beyond": self.outcome.beyond(self.base),
            "base_log_likelihood": round(self.base_log_likelihood, 6),
            "way": self.way,
            "search": asdict(self.search),
            "scale": self.scale,
            "factor": self.factor,
            "sentences": self.sentences,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 1),
            "decoded": [
                {**d.setting.record(), **d.outcome.record(), "beyond": d.outcome.beyond(self.base)}
                for d in self.decoded
            ],
            "points": [{**parameters(p.options), "log_likelihood": round(p.log_likelihood, 6)} for p in self.points],
        }


def plain(backbone: Backbone) -> Fuse:
    """The paper's mixture, without a guard."""
    end = backbone.target.eos
    return lambda retriever, combiner, setting: KnnFusion(retriever, combiner, EndVotes(end, setting.end_weight))


def tune(
    backbone: Backbone,
    retriever: Retriever,
    sentences: Sequence[Utterance] | Sequence[Pair],
    way: Way = "speech",
    options: SearchOptions = SearchOptions(),
    decodes: int = DECODES,
    space: Space = Space(),
    language: str | None = None,
    progress: bool = True,
    *,
    fuse: Fuse | None = None,
    guarding: Guarding | None = None,
) -> Tuning:
    """Choose k, λ and T, and what else of the search the space leaves open.

    sentences: in-domain and not in the store; utterances, or with way "text" pairs or transcribed utterances;
    options: of the search, for the model alone as well; decodes: how many settings may be decoded; the model alone is
    decoded besides; fuse: by default the paper's mixture; guarding: fits the gate of the store, through which it then
    speaks in everything that is decoded
    """
    fuse = guarding.fuse if guarding else fuse or plain(backbone)
    start = time.perf_counter()
    devset = DevSet(backbone, sentences, way, language)
    text = store_text(retriever)
    with bar(progress) as display:
        task = display.add_task("tuning: likelihood", total=(decodes + 2) * len(devset), note="")

        def advance(done: int) -> None:
            display.advance(task, done)

        remembering = CachingRetriever(retriever, space.grid.largest_k)
        evidence = gather(devset, retriever, space.grid.largest_k, advance)
        _check(evidence, len(devset))
        factor = temperature_factor(evidence.scale)
        grid, points = scored(evidence, space.grid.scaled(factor))

        def decode(setting: Setting | None) -> Outcome:
            display.update(task, description=f"tuning: {setting or 'model alone'}")
            fusions = [fuse(remembering, setting.knn, setting)] if setting else []
            search = options
            if setting is not None and guarding is None:
                search = replace(options, length_penalty=setting.length_penalty)
            return Outcome.of(devset.translations(search, fusions, advance), devset.references, text)

        base = decode(None)
        if guarding is not None:
            display.update(task, description="tuning: the gate")
            guarding.fit(devset, remembering, favourite(points), options)
        climb = Climb(evidence, points, replace(space, grid=grid), base, decode, decodes)
        # Behind a gate the end is the model's: a key at the end of another sentence says little about this one.
        end_weight = 1.0 if guarding is None else 0.0
        best = climb.run(Setting(favourite(points), options.length_penalty, end_weight))
        display.update(task, completed=(decodes + 2) * len(devset))
    found, value = climb.decoded[best], climb.smooth(best)
    if (base.mean, evidence.alone) > (value, climb.likelihood(best)):
        best = Setting(replace(best.knn, lambda_=0.0), options.length_penalty)
        found, value = base, base.mean
    return Tuning(
        best=best.knn,
        length_penalty=best.length_penalty,
        end_weight=best.end_weight,
        outcome=found,
        base=base,
        value=value,
        base_value=base.mean,
        base_log_likelihood=evidence.alone,
        points=_points(evidence, climb.grid),
        decoded=climb.listed(),
        way=way,
        search=options,
        guarded=guarding is not None,
        scale=evidence.scale,
        factor=factor,
        sentences=len(devset),
        skipped=devset.skipped,
        seconds=time.perf_counter() - start,
    )


def store_text(retriever: Retriever) -> StoreText | None:
    """The sentences of a retriever's stores, where it has any."""
    match retriever:
        case Datastore():
            return StoreText.of(retriever)
        case LocalRetriever():
            return StoreText.of(retriever.store)
        case JoinedRetriever():
            return StoreText.of(*retriever.stores)
    return None


def temperature_factor(scale: float) -> float:
    """What the paper's temperatures are multiplied by: 1 unless the distances are far from those it had.

    One digit only: temperatures are meant to be typed.
    """
    if USUAL_SCALE / _FAR <= scale <= USUAL_SCALE * _FAR:
        return 1.0
    return float(f"{scale / USUAL_SCALE:.0e}")


def scored(evidence: DevNeighbours, grid: Grid) -> tuple[Grid, tuple[Point, ...]]:
    """The likelihood of all points; a grid whose favourite lies at an edge is extended there."""
    while True:
        points = _points(evidence, grid)
        wider = grid.extended(favourite(points))
        if wider == grid:
            return grid, points
        grid = wider


def _points(evidence: DevNeighbours, grid: Grid) -> tuple[Point, ...]:
    return tuple(Point(*pair) for pair in zip(grid.points(), log_likelihoods(evidence, grid), strict=True))


def _check(evidence: DevNeighbours, sentences: int) -> None:
    if evidence.distances[:, 0].isinf().all():
        raise InputError("The datastore holds no keys: there is nothing to tune.")
    if evidence.scale == 0 or evidence.share_of_known > _KNOWN:
        raise InputError(
            f"The datastore knows most of the {sentences} dev sentences already, so that they cannot tell how much "
            "to trust it: build it without them (see `npda filter`), or tune on other sentences."
        )
