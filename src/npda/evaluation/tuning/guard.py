"""Fitting the gate of a store: it has to tell sentences of the domain from general ones.

Not by the likelihood of references: where these are far from what the model would say, any help is welcome, and a gate
that makes them likely never closes. It separates the hypotheses of a search: those of domain sentences with
the store, those of general sentences by the model alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from npda.corpus.manifest import Utterance, is_manifest, read_manifest
from npda.corpus.pairs import Pair, read_pairs
from npda.datastore.counter import find_counter
from npda.datastore.measured import Price
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.retrieval.protocol import Retriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import Combiner, KnnOptions
from npda.decoding.knn.fusion import EndVotes, KnnFusion
from npda.decoding.knn.guard import Guard, RecentNearness, nearness
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.decoding.knn.tuned_guard import FittedGuard
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.significance import compare
from npda.evaluation.tuning.likelihood import forced
from npda.evaluation.tuning.objective import Setting
from npda.models.backbone import Backbone

logger = logging.getLogger(__name__)

OPEN = 0.93  # how far the gate is open at the mean evidence of a domain's sentences, and closed at that of general ones
TEXT_SHARE = 0.6  # of the evidence on text that is left on speech
_OFF_CENTRE = 1 / 6  # of the gap between the means, by which the gate may turn nearer to one of them
_DOUBT = 0.04  # of the gap, by which the store has to be nearer: in doubt the model decides
_FLATTEST, _STEEPEST = 2.0, 60.0


@dataclass(frozen=True)
class GuardFit:
    """domain, general: the share of the sentences whose mean evidence is on their side"""

    guard: Guard
    domain: float
    general: float


class Guarding:
    """Fits the gate of a store while it is tuned, and measures what the store costs general sentences.

    store: by which the gate is fitted; counter: the counter-store; general: held-out general sentences, heard if those
    of the domain are; search: how to translate them
    """

    def __init__(self, store: Datastore, counter: Datastore, general: DevSet, search: SearchOptions) -> None:
        self.store, self.counter, self.general, self.search = store, counter, general, search
        self._answers = CachingRetriever(counter, 1)
        self._found: GuardFit | None = None

    @property
    def found(self) -> GuardFit:
        if self._found is None:
            raise ValueError("the gate has not been fitted yet")
        return self._found

    @cached_property
    def general_alone(self) -> list[str]:
        """The model's own translations of the general sentences."""
        return self.general.translations(self.search)

    def fit(self, domain: DevSet, retriever: Retriever, knn: KnnOptions, search: SearchOptions) -> GuardFit:
        """Fit the gate to hypotheses of the domain that the store has steered, and general ones of the model alone.

        knn: with which it steers; λ is the middle one
        """
        if domain.way != self.general.way:
            domain = DevSet(domain.backbone, [example.sentence for example in domain.examples], self.general.way)
        steered = domain.translations(search, [KnnFusion(retriever, replace(knn, lambda_=0.5))])
        ours = evidence_along(domain, steered, retriever, self._answers)
        theirs = evidence_along(self.general, self.general_alone, retriever, self._answers)
        self._found = found = fit_guard(ours, theirs, self.general.way)
        return found

    def fuse(self, retriever: Retriever, combiner: Combiner, setting: Setting) -> Fusion:
        """The store behind its gate: a ``Fuse`` of tuning."""
        return behind(self.found.guard, self._answers, self.general.backbone)(retriever, combiner, setting)

    def price(self, setting: Setting, combiner: Combiner | None = None) -> Price:
        """What the store costs when it is left on, by paired bootstrap over the general sentences.

        combiner: instead of the setting's own k, λ and T
        """
        texts = self.general.translations(self.search, [self.fuse(self.store, combiner or setting.knn, setting)])
        return price_of(texts, self.general_alone, self.general)

    def fitted(self, price: Price | None) -> FittedGuard:
        """What the store keeps."""
        found = self.found
        return FittedGuard(
            slope=round(found.guard.slope, 3),
            bias=round(found.guard.bias, 4),
            way=self.general.way,
            domain=round(found.domain, 3),
            general=round(found.general, 3),
            counter=self.counter.digest,
            store=self.store.digest,
            price=price,
        )


def guarding_for(
    backbone: Backbone,
    directory: Path | None,
    store: Datastore,
    general: Path | None,
    way: Way,
    search: SearchOptions,
    language: str | None = None,
) -> Guarding | None:
    """What fits the gate of a store, or None if the model has no counter-store.

    directory: of the model; general: a manifest or pairs, by default what was held out of the counter-store; way: of
    the domain's sentences
    """
    counter = find_counter(backbone, directory, language)
    if counter is None:
        logger.warning(
            "The model has no counter-store, so that %s is tuned without a gate and will steer whatever is said: make "
            "one of general text with `npda build --counter`.",
            store.path,
        )
        return None
    sentences: Sequence[Utterance] | Sequence[Pair] = counter.held_out if general is None else read_sentences(general)
    spoken = way == "speech" and isinstance(sentences[0], Utterance)
    return Guarding(store, counter.store, DevSet(backbone, sentences, "speech" if spoken else "text", language), search)


def read_sentences(path: Path) -> Sequence[Utterance] | Sequence[Pair]:
    """A manifest of speech or a table of pairs, told apart by the header."""
    return read_manifest(path) if is_manifest(path) else read_pairs(path)


def behind(guard: Guard, counter: Retriever, backbone: Backbone) -> Callable[[Retriever, Combiner, Setting], Fusion]:
    """Neighbours of one store behind its gate: a ``Fuse`` of tuning."""

    def fuse(retriever: Retriever, combiner: Combiner, setting: Setting) -> GuardedFusion:
        ends = EndVotes(backbone.target.eos, setting.end_weight)
        store = GuardedStore(retriever, combiner, guard, ends, length_penalty=setting.length_penalty)
        return GuardedFusion([store], counter)

    return fuse


def price_of(texts: Sequence[str], alone: Sequence[str], general: DevSet) -> Price:
    """General sentences translated with stores on, beside what the model makes of them alone."""
    bleu, chrf = compare(texts, alone, general.references, ["bleu", "chrf"])
    return Price(
        sentences=len(general),
        way=general.way,
        bleu=round(bleu.value, 2),
        base_bleu=round(bleu.baseline_value, 2),
        p_bleu=bleu.p_value if bleu.delta else 1.0,
        chrf=round(chrf.value, 2),
        base_chrf=round(chrf.baseline_value, 2),
        p_chrf=chrf.p_value if chrf.delta else 1.0,
    )


def evidence_along(devset: DevSet, texts: Sequence[str], store: Retriever, counter: Retriever) -> list[np.ndarray]:
    """What a gate would see along given translations of a dev set: [steps] of evidence for each.

    texts: as ``devset.translations`` gives them
    """
    found: list[np.ndarray] = [np.zeros(0, np.float32)] * len(texts)
    for batch in forced(devset.along(texts)):
        states = batch.states.numpy()
        near = nearness(store.search(states, 1).distances[:, 0], counter.search(states, 1).distances[:, 0])
        start = 0
        for place, length in zip(batch.places, batch.lengths, strict=True):
            found[place] = smoothed(near[start : start + length])
            start += length
    return found


def smoothed(near: np.ndarray) -> np.ndarray:
    """The evidence of one hypothesis from its first step to its last. near: [steps] → [steps]"""
    evidence, sentence = RecentNearness(1), np.zeros(1, np.int64)
    prefix = np.zeros((1, len(near) + 1), np.int64)
    return np.array([evidence.add(near[t : t + 1, None], prefix[:, : t + 1], sentence)[0, 0] for t in range(len(near))])


def fit_guard(domain: Sequence[np.ndarray], general: Sequence[np.ndarray], way: Way) -> GuardFit:
    """The gate that is ``OPEN`` at the mean evidence of domain sentences, and as far closed at that of general ones.

    It turns where the store is a little nearer than the counter-store, unless that is far from the middle between the
    two means, as it is where one store is much smaller. A steeper gate would leave no doubt, and could not be reopened.
    Nor is it steeper than the log-odds of two normal distributions: the gate of a store whose text cannot be told from
    general text stays flat, so that its noise does not take the say from other stores.
    domain, general: [steps] of evidence for each sentence; way: how the sentences went into the model
    """
    means = [np.array([evidence.mean() for evidence in side]) for side in (domain, general)]
    mu_domain, mu_general = (float(side.mean()) for side in means)
    middle, gap = (mu_domain + mu_general) / 2, max(mu_domain - mu_general, 1e-6)
    bias = float(np.clip(0.0, middle - _OFF_CENTRE * gap, middle + _OFF_CENTRE * gap)) + _DOUBT * gap
    slope = 2 * float(np.log(OPEN / (1 - OPEN))) / (gap * (TEXT_SHARE if way == "text" else 1.0))
    variance = max(float(np.mean([side.var() for side in means])), 1e-6)
    slope = min(slope, gap / variance)
    guard = Guard(float(np.clip(slope, _FLATTEST, _STEEPEST)), bias)
    right = float((means[0] > bias).mean()), float((means[1] <= bias).mean())
    return GuardFit(guard, *right)
