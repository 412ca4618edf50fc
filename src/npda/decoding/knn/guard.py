"""When a store may speak: a gate that compares its keys with those of general text.

A counter-store holds general text, read by the same model. A decoder state of the store's domain lies nearer to the
store, any other nearer to the counter-store. The counter-store's neighbours never vote for a token: they hand weight
back to the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MEMORY = 0.5  # share of the evidence so far that counts at the next step
_FAR = 80.0  # a logit beyond which the exponential would overflow
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: products of it fill 64 bits


@dataclass(frozen=True)
class Guard:
    """How the gate of one store opens: σ(slope · (evidence − bias)).

    evidence lies between −1 (a key of the counter-store was met exactly) and 1 (one of the store was)
    """

    slope: float = 20.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.slope) and np.isfinite(self.bias)) or self.slope < 0:
            raise ValueError("slope must be a number from 0 on, bias any number")

    def __str__(self) -> str:
        return f"guard:{self.slope:g},{self.bias:g}"

    def logit(self, evidence: np.ndarray) -> np.ndarray:
        return self.slope * (evidence - self.bias)


def nearness(store: np.ndarray, counter: np.ndarray) -> np.ndarray:
    """How much nearer the store is: r = (d_counter − d_store) / (d_counter + d_store).

    store, counter: squared distances to the nearest key of either side, +inf where there is none → the same shape,
    −1 … 1; 0 where neither has a key, or both have the very same
    """
    total = counter + store
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (counter - store) / total
    r = np.where(np.isinf(store) & ~np.isinf(counter), -1.0, r)
    r = np.where(np.isinf(counter) & ~np.isinf(store), 1.0, r)
    return np.nan_to_num(r, nan=0.0).astype(np.float32)


def shares(logits: np.ndarray) -> np.ndarray:
    """How much of the say each store gets: σ of the largest logit for all of them, divided by a softmax.

    One more store with the same say changes nothing for the model. logits: [rows, stores] → [rows, stores]
    """
    top = logits.max(axis=1, keepdims=True)
    weights = np.exp(logits - top)
    return weights / weights.sum(axis=1, keepdims=True) / (1 + np.exp(-top.clip(min=-_FAR)))


class RecentNearness:
    """The recent nearness along every hypothesis: a_t = (r_t + m·s_{t−1}) / (1 + m·n_{t−1} + 1), m the memory.

    s and n are the sums of nearness and of steps, both fading by m; the 1 stands for a step without evidence before the
    first, so that no gate opens at a single step. One search at a time; what a sentence gets does not depend on the
    others in its batch.
    """

    def __init__(self, stores: int, memory: float = MEMORY) -> None:
        self._memory = memory
        self.paths = Paths()
        self._sums = np.zeros((0, stores))
        self._steps = np.zeros(0)

    def begin(self) -> None:
        """Forget the hypotheses of an earlier search."""
        self.paths.begin()

    def add(self, nearness: np.ndarray, prefixes: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """Take in one step; gives the evidence that each hypothesis has now.

        nearness: [rows, stores]; prefixes: [rows, length] tokens, one more than in the step before; sentences: [rows]
        → [rows, stores]
        """
        rows, kept = self.paths.step(prefixes, sentences)
        if len(rows):
            self._sums = self._memory * kept[:, None] * self._sums[rows] + nearness
            self._steps = self._memory * kept * self._steps[rows] + 1
        else:
            self._sums, self._steps = nearness.astype(np.float64), np.ones(len(nearness))
        return (self._sums / (self._steps + 1)[:, None]).astype(np.float32)


class Openness:
    """How far the gates have been open in each sentence: the mean over its hypotheses, and over the steps so far."""

    def __init__(self, stores: int) -> None:
        self._stores = stores
        self.begin()

    def begin(self) -> None:
        """Forget an earlier search."""
        self._sums, self._steps = np.zeros((0, self._stores)), np.zeros(0)

    def add(self, opened: np.ndarray, sentences: np.ndarray) -> None:
        """opened: [rows, stores] of one step; sentences: [rows]"""
        present, rows = np.unique(sentences, return_counts=True)
        if (missing := present[-1] + 1 - len(self._steps)) > 0:
            self._sums = np.pad(self._sums, ((0, missing), (0, 0)))
            self._steps = np.pad(self._steps, (0, missing))
        means = np.stack([np.bincount(sentences, column)[present] for column in opened.T], axis=1) / rows[:, None]
        self._sums[present] += means
        self._steps[present] += 1

    def mean(self, sentences: np.ndarray) -> np.ndarray:
        """sentences: [n], all of which have been added → [n, stores]"""
        return self._sums[sentences] / self._steps[sentences, None]


class Said:
    """The mean of something along every hypothesis, to be asked for when the search is over.

    paths: follows the hypotheses; its steps are made elsewhere
    """

    def __init__(self, stores: int, paths: Paths) -> None:
        self._stores = stores
        self._paths = paths
        self._steps: list[tuple[np.ndarray, np.ndarray]] = []  # names of the hypotheses, and their sums so far

    def begin(self) -> None:
        """Forget the hypotheses of an earlier search."""
        self._steps = []

    def add(self, values: np.ndarray) -> None:
        """values: [rows, stores] of the step that ``paths`` has made last"""
        rows, kept = self._paths.last
        sums = kept[:, None] * self._steps[-1][1][rows] + values if len(rows) else values.astype(np.float64)
        self._steps.append((self._paths.names, sums))

    def mean(self, prefix: np.ndarray, sentence: int) -> tuple[float, ...]:
        """Over the steps up to the one that had this prefix. prefix: [length]; zeros where there was no such step"""
        name = _names(prefix[None], np.array([sentence]))[0]
        for step, (names, sums) in enumerate(self._steps, 1):
            if len(found := np.flatnonzero(names == name)):
                return tuple((sums[found[0]] / step).tolist())
        return (0.0,) * self._stores


_NO_STEP = np.zeros(0, np.int64), np.zeros(0, bool)


class Paths:
    """Follows hypotheses from step to step by their prefixes, wherever they stand in the beam."""

    def __init__(self) -> None:
        self.names = np.zeros(0, np.uint64)  # of the present step's
        self.last = _NO_STEP  # what ``step`` gave last

    def begin(self) -> None:
        """Begin another search."""
        self.names = self.names[:0]

    def step(self, prefixes: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which row of the step before each hypothesis continues, and whether there is one; nothing at the first step.

        prefixes: [rows, length]; sentences: [rows] → [rows] and [rows] bool
        """
        before, self.names, self.last = self.names, _names(prefixes, sentences), _NO_STEP
        if len(before):
            order = np.argsort(before)
            parents = _names(prefixes[:, :-1], sentences)
            rows = order[np.searchsorted(before[order], parents).clip(max=len(order) - 1)]
            self.last = rows, before[rows] == parents
        return self.last


def _names(prefixes: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """A number of 64 bits for every hypothesis. prefixes: [rows, length]; sentences: [rows] → [rows]"""
    tokens = np.concatenate([sentences[:, None], prefixes], axis=1).astype(np.uint64) + np.uint64(1)
    powers = np.cumprod(np.full(tokens.shape[1], _BASE, np.uint64))
    return (tokens * powers).sum(axis=1, dtype=np.uint64)
