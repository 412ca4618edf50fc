"""The way through the settings: a few are decoded, each chosen by what the ones before it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from npda.decoding.knn.combiners import KnnOptions
from npda.evaluation.tuning.likelihood import Axis, DevNeighbours, Grid, log_likelihoods
from npda.evaluation.tuning.objective import Decoded, Outcome, Setting, smoothed

_AS_GOOD = 0.025  # nats a token: likelihoods that near are as good


@dataclass(frozen=True)
class Point:
    """A point of the grid. log_likelihood: mean log-probability of a reference token"""

    options: KnnOptions
    log_likelihood: float


@dataclass(frozen=True)
class Space:
    """What may be chosen: a point of the grid, and how the search is to go with it.

    length_penalties, end_weights: beside the one that the search starts with
    """

    grid: Grid = field(default_factory=Grid)
    length_penalties: tuple[float, ...] = ()
    end_weights: tuple[float, ...] = ()


class Climb:
    """Goes uphill from the setting that likelihood recommends, as far as ``decodes`` carry.

    λ goes first, in steps of two until the best has a worse one on either side; then the length penalty; then λ in
    single steps, until the best has both its neighbours decoded; then the weight of end votes; then k and T.

    evidence: for λ, k and T that were not decoded yet; points: what likelihood says of the grid; base: the model alone
    """

    def __init__(
        self,
        evidence: DevNeighbours,
        points: Sequence[Point],
        space: Space,
        base: Outcome,
        decode: Callable[[Setting], Outcome],
        decodes: int,
    ) -> None:
        self._evidence, self._points, self._space, self._base = evidence, points, space, base
        self._decode, self._decodes = decode, decodes
        self.grid = space.grid
        self.decoded: dict[Setting, Outcome] = {}

    def run(self, start: Setting) -> Setting:
        """The best setting; it is among those decoded."""
        if self._decodes < 3:  # too few to search for λ: it is the likelihood's
            self._tried(start)
            return start
        best = self._wide(start)
        best = self._along(best, "length_penalty", self._space.length_penalties)
        best = self._narrow(best)
        if (ends := self._along(best, "end_weight", self._space.end_weights)) != best:
            best = self._narrow(ends)
        while self._left:
            other = next((s for s in self._beside(best) if s not in self.decoded and self._tried(s)), None)
            if other is None:
                break
            if self._value(other) > self._value(best):
                best = self._narrow(other)
        return best

    def smooth(self, setting: Setting) -> float:
        """The value of a decoded setting: its scores smoothed with those of the λ beside it, where these were decoded.

        What lies beyond the bounds is its own affair: a λ is not to blame for what a larger one does.
        """
        beside = [self.decoded[s].mean for s in self._lambdas(setting, 1) if s in self.decoded]
        own = self.decoded[setting].mean
        return smoothed(own, beside) - (own - self._value(setting))

    def likelihood(self, setting: Setting) -> float:
        axes = (Axis((value,)) for value in (setting.knn.k, setting.knn.lambda_, setting.knn.temperature))
        return log_likelihoods(self._evidence, Grid(*axes))[0]

    def listed(self) -> tuple[Decoded, ...]:
        """In the order they were decoded."""
        return tuple(Decoded(setting, outcome) for setting, outcome in self.decoded.items())

    @property
    def _left(self) -> int:
        return self._decodes - len(self.decoded)

    def _tried(self, setting: Setting) -> bool:
        """Whether a setting is decoded now: it was, or there was a decode left for it."""
        if setting not in self.decoded and self._left:
            self.decoded[setting] = self._decode(setting)
        return setting in self.decoded

    def _value(self, setting: Setting) -> float:
        return self.decoded[setting].value(self._base)

    def _rank(self, setting: Setting) -> tuple[float, float]:
        """Of equals the likelier one is better."""
        return self._value(setting), self.likelihood(setting)

    def _lambdas(self, setting: Setting, distance: int) -> list[Setting]:
        """The settings so many λ below and above."""
        beside = self.grid.lambda_.beside(setting.knn.lambda_, distance)
        return [replace(setting, knn=replace(setting.knn, lambda_=lambda_)) for lambda_ in beside]

    def _wide(self, start: Setting) -> Setting:
        """The best λ in steps of two; it starts in the middle, whatever likelihood says."""
        values = self.grid.lambda_.values
        middle = replace(start, knn=replace(start.knn, lambda_=values[len(values) // 2]))
        best, todo = middle, [middle, *self._lambdas(middle, 2)[1:]]
        while todo and self._tried(todo[0]):
            best = max(best, todo.pop(0), key=self._rank)
            todo = todo or [s for s in self._lambdas(best, 2) if s not in self.decoded]
        return best

    def _narrow(self, best: Setting) -> Setting:
        """The best λ in single steps, smoothed, once both its neighbours are decoded or decodes have run out."""
        while True:
            line = [s for s in self.decoded if _same_but_lambda(s, best)]
            best = max(line, key=lambda s: (self.smooth(s), self._rank(s)))
            self.grid = self.grid.extended(best.knn)
            missing = [s for s in self._lambdas(best, 1) if s not in self.decoded]
            if not missing or not self._tried(max(missing, key=lambda s: self._promise(s, best, line))):
                return best

    def _promise(self, setting: Setting, best: Setting, line: Sequence[Setting]) -> tuple[float, float]:
        """What is known on this side of the best: the value of the nearest decoded λ, then likelihood."""
        here, there = best.knn.lambda_, setting.knn.lambda_
        beyond = [s for s in line if (s.knn.lambda_ - here) * (there - here) > 0]
        nearest = min(beyond, key=lambda s: abs(s.knn.lambda_ - there), default=None)
        known = self._value(nearest) if nearest is not None else float("-inf")
        return known, self.likelihood(setting)

    def _along(self, best: Setting, name: str, values: Sequence[float]) -> Setting:
        """The best of one parameter of the search: up while it gets better, else down."""
        axis = Axis(tuple(sorted({*values, getattr(best, name)})))
        for side in (1, -1):
            start = best
            while beside := [v for v in axis.beside(getattr(best, name)) if (v - getattr(best, name)) * side > 0]:
                other = replace(best, **{name: beside[0]})
                if not self._tried(other) or self._value(other) <= self._value(best):
                    break
                best = other
            if best != start:
                break
        return best

    def _beside(self, best: Setting) -> Iterator[Setting]:
        """The next k, with the T that suits it, and the next T."""
        knn = best.knn
        for k in self.grid.k.beside(knn.k):
            known = any(point.options.k == k for point in self._points)
            temperature = sharpest(self._points, int(k)).options.temperature if known else knn.temperature
            yield replace(best, knn=replace(knn, k=int(k), temperature=temperature))
        for temperature in self.grid.temperature.beside(knn.temperature):
            yield replace(best, knn=replace(knn, temperature=temperature))


def favourite(points: Sequence[Point]) -> KnnOptions:
    """What likelihood recommends: the smallest k that is about as good as any, likewise its T, and their best λ.

    Neighbours further away make references likelier and searches worse, so that the likeliest k and T are too large.
    """
    enough = max(point.log_likelihood for point in points) - _AS_GOOD
    smallest = min(point.options.k for point in points if point.log_likelihood >= enough)
    return sharpest(points, smallest).options


def sharpest(points: Sequence[Point], k: int) -> Point:
    """Of one k, the smallest T that is about as good as any, with its best λ."""
    of_k = [point for point in points if point.options.k == k]
    enough = max(point.log_likelihood for point in of_k) - _AS_GOOD
    lowest = min(point.options.temperature for point in of_k if point.log_likelihood >= enough)
    return max((p for p in of_k if p.options.temperature == lowest), key=lambda point: point.log_likelihood)


def _same_but_lambda(one: Setting, other: Setting) -> bool:
    return replace(one, knn=other.knn) == other and replace(one.knn, lambda_=other.knn.lambda_) == other.knn
