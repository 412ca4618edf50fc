"""Stores in use, and the fusion that they make."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npda.corpus.languages import language_code
from npda.datastore.retrieval.overlaid import Overlaid, Overlay
from npda.datastore.retrieval.protocol import Retriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import Combiner, KnnOptions
from npda.decoding.knn.exact import Exact, exact_within
from npda.decoding.knn.fusion import EndVotes
from npda.decoding.knn.guard import Guard
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.decoding.knn.steering import Chosen, steer
from npda.decoding.knn.untuned import Yardstick, scale_of_keys, untuned
from npda.serving.engine.asks import Way
from npda.serving.errors import Refusal
from npda.serving.stores.versions import Version
from npda.translator import Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Counter:
    """A model's counter-store, opened, and the scale of its distances."""

    store: Datastore
    scale: float | None


@dataclass(frozen=True)
class Member:
    """A store by its name: on disk, corrected, or both."""

    name: str
    version: Version | None
    overlay: Overlay | None

    @property
    def signature(self) -> str:
        on_disk = self.version.signature if self.version else self.name
        return f"{on_disk}+{self.overlay.version}" if self.overlay else on_disk

    def speaks(self, language: str | None) -> bool:
        """Whether it holds anything in a language."""
        if self.version is None or language is None:
            return True
        return not self.version.info.languages or language in self.version.info.languages


class HeldStores:
    """Implements ``asks.Held``. automatic: stores that do not suit a way are passed over instead of refused"""

    def __init__(
        self,
        members: Sequence[Member],
        counter: Counter | None,
        release: Callable[[Sequence[Member]], None],
        automatic: bool = False,
    ) -> None:
        self.members = tuple(members)
        self.counter = counter
        self.signature = tuple(member.signature for member in members)
        self._release: Callable[[Sequence[Member]], None] | None = release
        self._automatic = automatic

    def fusion(self, translator: Translator, way: Way) -> Fusion | None:
        members = self._speaking(way)
        if not members:
            return None
        eos = translator.backbone.target.eos
        counter = self.counter
        language = way.language and language_code(way.language)
        if counter is not None and counter.store.info.languages and language is not None:
            counter = counter if language in counter.store.info.languages else None
        corrected = any(member.overlay for member in members)
        if counter is None and not corrected and not self._automatic:
            stores = [member.version.store for member in members if member.version]
            return steer(translator.backbone, stores, None, way.chosen)  # the paper's way, as asked for
        scale = self._scale(members, counter)
        against: Retriever = counter.store if counter is not None else Yardstick(_reach(members, scale))
        return GuardedFusion([_guarded(member, way.chosen, scale, eos) for member in members], against)

    def options(self, way: Way) -> SearchOptions:
        if way.options is not None:
            return way.options
        tuned = [m.version for m in self._speaking(way) if m.version is not None and m.version.tuned is not None]
        if not tuned or tuned[0].guard is not None:  # a store behind a gate brings its length penalty itself
            return SearchOptions()
        assert tuned[0].tuned is not None
        return SearchOptions(length_penalty=tuned[0].tuned.length_penalty)

    def release(self) -> None:
        """Let go; nothing happens the second time."""
        release, self._release = self._release, None
        if release is not None:
            release(self.members)

    def __enter__(self) -> HeldStores:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _speaking(self, way: Way) -> list[Member]:
        language = way.language and language_code(way.language)
        found = [member for member in self.members if member.speaks(language)]
        if len(found) < len(self.members) and not self._automatic:
            silent = next(member.name for member in self.members if not member.speaks(language))
            raise Refusal(422, f"The store {silent} holds nothing in {language}: leave it out.", "stores")
        return found

    @staticmethod
    def _scale(members: Sequence[Member], counter: Counter | None) -> float:
        """Of the counter-store's distances; without one, of the stores' own."""
        if counter is not None and counter.scale is not None:
            return counter.scale
        own = [m.version.info.distance_scale for m in members if m.version and m.version.info.distance_scale]
        own += [s for m in members if m.overlay is not None and (s := scale_of_keys(m.overlay.keys)) is not None]
        return float(np.median(own)) if own else 100.0


def _reach(members: Sequence[Member], scale: float) -> float:
    """How near keys have to be without a counter-store: by the scale or, for corrections alone, by what they show."""
    reaches = [member.overlay.reach for member in members if member.overlay is not None]
    return scale if any(member.version for member in members) else min([scale, *reaches])


def _guarded(member: Member, chosen: Chosen, scale: float, eos: int) -> GuardedStore:
    """A store behind its gate, with its corrections.

    One that was never tuned has k, λ and T by the scale, the usual gate, and leaves the end to the model, as stores
    that are tuned behind a gate mostly do.
    """
    version, overlay = member.version, member.overlay
    tuned = version.tuned if version is not None else None
    guard = version.guard.guard if version is not None and version.guard is not None else Guard()
    end_weight = tuned.end_weight if tuned is not None else 0.0
    combiner = _combiner(chosen, version, tuned.options if tuned is not None else untuned(scale))
    end_votes = EndVotes(eos, end_weight) if end_weight < 1 else None
    own = tuned.length_penalty if tuned is not None and chosen.length_penalty is None else None
    if overlay is None:
        assert version is not None
        return GuardedStore(version.store, combiner, guard, end_votes, length_penalty=own)
    retriever = Overlaid(member.name, version.store if version is not None else None, overlay)
    exact = Exact(exact_within(scale), first=retriever.first)
    return GuardedStore(retriever, combiner, guard, end_votes, exact, own)


def _combiner(chosen: Chosen, version: Version | None, options: KnnOptions) -> Combiner:
    if chosen.combiner is not None:
        return chosen.combiner
    if chosen.adaptive and version is not None:
        return chosen.combiner_of(version.store)
    given = {"k": chosen.k, "lambda_": chosen.lambda_, "temperature": chosen.temperature}
    return replace(options, **{name: value for name, value in given.items() if value is not None})
