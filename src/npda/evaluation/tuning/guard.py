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
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.likelihood import forced

STEEPEST = 40.0  # sides that are told apart without fault would ask for an infinite slope
FLATTEST = 4.0


@dataclass(frozen=True)
class GuardFit:
    """domain, general: the share of the sentences whose gate, on average, is on their side"""

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


def fit_guard(domain: Sequence[np.ndarray], general: Sequence[np.ndarray]) -> GuardFit:
    """The gate of two normal distributions of evidence with one variance, both sides equally likely beforehand.

    Then log p(domain) / p(general) = slope · (evidence − bias) with slope = (μ_d − μ_g) / σ², bias = (μ_d + μ_g) / 2.
    domain, general: [steps] of evidence for each sentence; every sentence counts alike, however long it is
    """
    means = [np.concatenate([np.full(len(e), 1 / len(e)) for e in side]) for side in (domain, general)]
    values = [np.concatenate(list(side)).astype(np.float64) for side in (domain, general)]
    mu_d, mu_g = (float(np.average(v, weights=w)) for v, w in zip(values, means, strict=True))
    spread = [np.average((v - mu) ** 2, weights=w) for v, w, mu in zip(values, means, (mu_d, mu_g), strict=True)]
    slope = (mu_d - mu_g) / max(float(np.mean(spread)), 1e-6)
    guard = Guard(float(np.clip(slope, FLATTEST, STEEPEST)), (mu_d + mu_g) / 2)
    right = [float(np.mean([guard.logit(e).mean() > 0 for e in side])) for side in (domain, general)]
    return GuardFit(guard, right[0], 1 - right[1])
