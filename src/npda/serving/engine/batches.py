"""Utterances of several requests as one batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.routed import RoutedFusion
from npda.serving.engine.asks import Way
from npda.serving.engine.line import Waiting
from npda.translation import Task, Translation
from npda.translator import Translator


@dataclass(frozen=True, eq=False)
class Steering:
    """What a request is steered by.

    fusion: None for the model alone; way, signature: requests that agree in them are steered alike
    """

    fusion: Fusion | None
    way: Way
    signature: tuple[str, ...] = ()

    def same_as(self, other: Steering) -> bool:
        return self.signature == other.signature and _of_fusion(self.way) == _of_fusion(other.way)


def _of_fusion(way: Way) -> Way:
    """What a fusion depends on: not the search, nor what becomes of its text."""
    return replace(way, source_language=None, terms=None, options=None)


@dataclass(eq=False)
class Utterance(Waiting):
    """One that waits to be decoded."""

    translator: Translator = field(kw_only=True)
    task: Task = field(kw_only=True)
    options: SearchOptions = field(kw_only=True)
    steering: Steering = field(kw_only=True)


def kind_of(translator: Translator, task: Task, options: SearchOptions) -> Hashable:
    """Equal for utterances that one search can decode: of one model that is told the same, with one beam, and with
    beginnings of equal lengths. The stores may differ."""
    return id(translator), len(task.prompt), len(task.begins), options


def decode(batch: Sequence[Utterance], asked: Callable[[int], None] | None = None) -> list[Translation]:
    """Translate utterances of one kind together. asked: told at every step how many hypotheses stores steer"""
    found: list[Steering] = []
    routes: list[int | None] = []
    for utterance in batch:
        own = utterance.steering
        if own.fusion is None:
            routes.append(None)
            continue
        place = next((i for i, other in enumerate(found) if own.same_as(other)), len(found))
        if place == len(found):
            found.append(own)
        routes.append(place)
    fusions = [steering.fusion for steering in found if steering.fusion is not None]
    routed = [RoutedFusion(fusions, routes, asked)] if fusions else []
    return batch[0].translator.decode([utterance.task for utterance in batch], batch[0].options, routed)
