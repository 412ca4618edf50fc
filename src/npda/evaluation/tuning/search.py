"""Choosing k, λ and T on held-out sentences of the domain, spoken or written.

The paper decodes its dev set with every point of a grid. Here the whole grid is scored by the likelihood of the
references, which takes one retrieval, and only a few points are decoded: likelihood is a good guide to k and T, but may
ask for a λ at which a search that must live with its own mistakes derails, so that λ is chosen by BLEU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.retrieval.protocol import Retriever
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.likelihood import Axis, DevNeighbours, Grid, gather, log_likelihoods
from npda.io.errors import InputError
from npda.io.progress import bar
from npda.models.backbone import Backbone

# The paper's temperatures, 1 … 200, suit distances of this order: 0.01 … 2 times as large.
USUAL_SCALE = 100.0
_FAR = 8.0  # times smaller or larger than that, and the temperatures are scaled
_AS_GOOD = 0.025  # nats a token: likelihoods that near are as good
_KNOWN = 0.5  # share of dev states that may be keys of the store


@dataclass(frozen=True)
class Point:
    """A point of the grid. log_likelihood: mean log-probability of a reference token"""

    options: KnnOptions
    log_likelihood: float


@dataclass(frozen=True)
class Decoded:
    """A point with which the dev set was translated."""

    options: KnnOptions
    bleu: float


@dataclass(frozen=True)
class Tuning:
    """What was chosen, and why.

    best: λ is 0 if no point was better than the model alone; bleu, base_bleu: on dev, with best and without a store;
    points: of the whole grid, k by k, λ by λ, T by T; decoded: in the order of the search; way: "speech" or "text";
    scale: median squared distance to the 8th neighbour; factor: what the paper's temperatures were multiplied by;
    skipped: sentences the model has no room for
    """

    best: KnnOptions
    bleu: float
    base_bleu: float
    base_log_likelihood: float
    points: tuple[Point, ...]
    decoded: tuple[Decoded, ...]
    way: Way
    search: SearchOptions
    scale: float
    factor: float
    sentences: int
    skipped: int
    seconds: float

    def plane(self, k: int) -> dict[tuple[float, float], float]:
        """(λ, T) → log-likelihood, for one k of the grid."""
        of_k = (point for point in self.points if point.options.k == k)
        return {(point.options.lambda_, point.options.temperature): point.log_likelihood for point in of_k}

    def record(self) -> dict:
        """For scripts, as JSON."""
        return {
            "best": parameters(self.best),
            "bleu": round(self.bleu, 2),
            "base_bleu": round(self.base_bleu, 2),
            "base_log_likelihood": round(self.base_log_likelihood, 6),
            "way": self.way,
            "search": asdict(self.search),
            "scale": self.scale,
            "factor": self.factor,
            "sentences": self.sentences,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 1),
            "decoded": [{**parameters(d.options), "bleu": round(d.bleu, 2)} for d in self.decoded],
            "points": [{**parameters(p.options), "log_likelihood": round(p.log_likelihood, 6)} for p in self.points],
        }


def parameters(options: KnnOptions) -> dict[str, float]:
    """As they are called in JSON."""
    return {"k": options.k, "lambda": options.lambda_, "temperature": options.temperature}


def tune(
    backbone: Backbone,
    retriever: Retriever,
    sentences: Sequence[Utterance] | Sequence[Pair],
    way: Way = "speech",
    options: SearchOptions = SearchOptions(),
    decodes: int = 8,
    grid: Grid = Grid(),
    language: str | None = None,
    progress: bool = True,
) -> Tuning:
    """Choose k, λ and T for a search with these options.

    sentences: in-domain and not in the store; utterances, or with way "text" pairs or transcribed utterances;
    decodes: how many points of the grid may be decoded; the model alone is decoded besides
    """
    start = time.perf_counter()
    devset = DevSet(backbone, sentences, way, language)
    with bar(progress) as display:
        task = display.add_task("tuning: likelihood", total=(decodes + 2) * len(devset), note="")

        def advance(done: int) -> None:
            display.advance(task, done)

        remembering = CachingRetriever(retriever, int(grid.k.values[-1]))
        evidence = gather(devset, retriever, grid.largest_k, advance)
        _check(evidence, len(devset))
        factor = temperature_factor(evidence.scale)
        grid, points = scored(evidence, grid.scaled(factor))

        def decode(knn: KnnOptions | None) -> float:
            display.update(task, description=f"tuning: {knn or 'model alone'}")
            fusions = [KnnFusion(remembering, knn)] if knn is not None else []
            return bleu(devset.translations(options, fusions, advance), devset.references).value

        base = decode(None)
        grid, decoded = climb(evidence, grid, points, decode, decodes)
        display.update(task, completed=(decodes + 2) * len(devset))
    best = best_or_alone(evidence, decoded, base)
    return Tuning(
        best=best.options,
        bleu=best.bleu,
        base_bleu=base,
        base_log_likelihood=float(evidence.log_probs.mean()),
        points=_points(evidence, grid),
        decoded=tuple(decoded),
        way=way,
        search=options,
        scale=evidence.scale,
        factor=factor,
        sentences=len(devset),
        skipped=devset.skipped,
        seconds=time.perf_counter() - start,
    )


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


def favourite(points: Sequence[Point]) -> KnnOptions:
    """What likelihood recommends: the smallest k that is about as good as any, likewise its T, and their best λ.

    Neighbours further away make references likelier and searches worse, so that the likeliest k and T are too large.
    """
    enough = max(point.log_likelihood for point in points) - _AS_GOOD
    smallest = min(point.options.k for point in points if point.log_likelihood >= enough)
    return _sharpest(points, smallest).options


def climb(
    evidence: DevNeighbours, grid: Grid, points: Sequence[Point], decode: Callable[[KnnOptions], float], decodes: int
) -> tuple[Grid, list[Decoded]]:
    """Decode a few points, each chosen by what the ones before it gave; the grid grows where the best is at its edge.

    It starts with two λ for the favourite k and T, and goes up from the better one: to λ two places away, to λ beside
    it, to the next k with the T that suits it, to the next T; until nothing around is better, or ``decodes`` are spent.
    """
    start = favourite(points)
    middle = len(grid.lambda_.values) // 2
    todo = [replace(start, lambda_=lambda_) for lambda_ in grid.lambda_.values[middle : middle + 3 : 2]]
    if decodes < 3:
        todo = [start]  # too few to search for λ: it is the likelihood's
    decoded: dict[KnnOptions, float] = {}
    while todo and len(decoded) < decodes:
        decoded[todo[0]] = decode(todo[0])
        if not (todo := todo[1:]):
            best = best_decoded(evidence, _listed(decoded)).options
            grid = grid.extended(best)
            todo = [options for options in _around(evidence, grid, points, best) if options not in decoded][:1]
    return grid, _listed(decoded)


def _around(evidence: DevNeighbours, grid: Grid, points: Sequence[Point], best: KnnOptions) -> Iterator[KnnOptions]:
    """Where to go from a point, the most promising first."""
    for distance in (2, 1):
        beside = [replace(best, lambda_=lambda_) for lambda_ in grid.lambda_.beside(best.lambda_, distance)]
        yield from sorted(beside, key=lambda options: -log_likelihood(evidence, options))
    for k in grid.k.beside(best.k):
        known = any(point.options.k == k for point in points)
        temperature = _sharpest(points, int(k)).options.temperature if known else best.temperature
        yield replace(best, k=int(k), temperature=temperature)
    for temperature in grid.temperature.beside(best.temperature):
        yield replace(best, temperature=temperature)


def best_decoded(evidence: DevNeighbours, decoded: Sequence[Decoded]) -> Decoded:
    """The best BLEU; among equals the likelier point."""
    return max(decoded, key=lambda d: (d.bleu, log_likelihood(evidence, d.options)))


def best_or_alone(evidence: DevNeighbours, decoded: Sequence[Decoded], base: float) -> Decoded:
    """The best that was decoded, with λ 0 if the model alone is better (base: its BLEU) or as good and likelier."""
    best = best_decoded(evidence, decoded)
    alone = float(evidence.log_probs.mean())
    if (base, alone) > (best.bleu, log_likelihood(evidence, best.options)):
        return Decoded(replace(best.options, lambda_=0.0), base)
    return best


def log_likelihood(evidence: DevNeighbours, options: KnnOptions) -> float:
    axes = Axis((options.k,)), Axis((options.lambda_,)), Axis((options.temperature,))
    return log_likelihoods(evidence, Grid(*axes))[0]


def _points(evidence: DevNeighbours, grid: Grid) -> tuple[Point, ...]:
    return tuple(Point(*pair) for pair in zip(grid.points(), log_likelihoods(evidence, grid), strict=True))


def _sharpest(points: Sequence[Point], k: int) -> Point:
    """Of one k, the smallest T that is about as good as any, with its best λ."""
    of_k = [point for point in points if point.options.k == k]
    enough = max(point.log_likelihood for point in of_k) - _AS_GOOD
    lowest = min(point.options.temperature for point in of_k if point.log_likelihood >= enough)
    return max((p for p in of_k if p.options.temperature == lowest), key=lambda point: point.log_likelihood)


def _listed(decoded: dict[KnnOptions, float]) -> list[Decoded]:
    return [Decoded(options, value) for options, value in decoded.items()]


def _check(evidence: DevNeighbours, sentences: int) -> None:
    if evidence.distances[:, 0].isinf().all():
        raise InputError("The datastore holds no keys: there is nothing to tune.")
    if evidence.scale == 0 or evidence.share_of_known > _KNOWN:
        raise InputError(
            f"The datastore knows most of the {sentences} dev sentences already, so that they cannot tell how much "
            "to trust it: build it without them (see `npda filter`), or tune on other sentences."
        )
