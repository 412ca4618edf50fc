"""Fitting the gate of a store: it has to tell sentences of the domain from general ones.

Not by the likelihood of references: where these are far from what the model would say, any help is welcome, and a gate
that makes them likely never closes. What is told apart are the hypotheses of a search: those of domain sentences with
the store, those of general sentences by the model alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npda.datastore.retrieval.protocol import Retriever
from npda.decoding.knn.guard import Evidence, Guard, nearness
from npda.evaluation.devset import DevSet, Way
from npda.evaluation.tuning.likelihood import forced

OPEN = 0.93  # how far the gate is open at the mean evidence of a domain's sentences, and closed at that of general ones
TEXT_SHARE = 0.6  # of the evidence on text that is left on speech
_OFF_CENTRE = 1 / 6  # of the gap between the means, by which the bias may be nearer to one of them
_FLATTEST, _STEEPEST = 2.0, 60.0


@dataclass(frozen=True)
class GuardFit:
    """domain, general: the share of the sentences whose mean evidence is on their side"""

    guard: Guard
    domain: float
    general: float


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
    evidence, sentence = Evidence(1), np.zeros(1, np.int64)
    prefix = np.zeros((1, len(near) + 1), np.int64)
    return np.array([evidence.add(near[t : t + 1, None], prefix[:, : t + 1], sentence)[0, 0] for t in range(len(near))])


def fit_guard(domain: Sequence[np.ndarray], general: Sequence[np.ndarray], way: Way) -> GuardFit:
    """The gate that is ``OPEN`` at the mean evidence of domain sentences, and as far closed at that of general ones.

    It turns where store and counter-store are equally near, unless that is far from the middle between the two means,
    as it is where one store is much smaller. A steeper gate would leave no doubt, and could not be reopened.
    domain, general: [steps] of evidence for each sentence; way: how the sentences went into the model
    """
    means = [np.array([evidence.mean() for evidence in side]) for side in (domain, general)]
    mu_domain, mu_general = (float(side.mean()) for side in means)
    middle, gap = (mu_domain + mu_general) / 2, max(mu_domain - mu_general, 1e-6)
    bias = float(np.clip(0.0, middle - _OFF_CENTRE * gap, middle + _OFF_CENTRE * gap))
    slope = 2 * float(np.log(OPEN / (1 - OPEN))) / (gap * (TEXT_SHARE if way == "text" else 1.0))
    guard = Guard(float(np.clip(slope, _FLATTEST, _STEEPEST)), bias)
    right = float((means[0] > bias).mean()), float((means[1] <= bias).mean())
    return GuardFit(guard, *right)
