"""Which word of a translation comes from which word of the source: IBM Model 1, learnt by EM from sentence pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

ROUNDS = 5  # of EM
_NOBODY = 0  # the source word of every target word that has none


class LexicalTable:
    """t(target word | source word) of Brown et al. (1993), for the words that stand together in some pair.

    Words are taken as they are given: the caller folds case and joins the words of a term.
    """

    def __init__(self, pairs: Iterable[tuple[Sequence[str], Sequence[str]]], rounds: int = ROUNDS) -> None:
        sources: defaultdict[str, int] = defaultdict(count(1).__next__)
        targets: defaultdict[str, int] = defaultdict(count().__next__)
        # One entry for every link that a pair allows: source word, target word, and the slot it competes for, which is
        # one target word of one pair.
        lefts, rights, sizes = [], [], []
        for source, target in pairs:
            left = np.array([_NOBODY, *(sources[word] for word in source)])
            right = np.array([targets[word] for word in target], dtype=np.int64)
            lefts.append(np.tile(left, len(right)))
            rights.append(np.repeat(right, len(left)))
            sizes.append(np.full(len(right), len(left)))
        self._sources, self._targets = dict(sources), dict(targets)
        left, right, size = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (lefts, rights, sizes))
        slots = np.repeat(np.arange(len(size)), size)
        self._pairs, links = np.unique(left * len(targets) + right, return_inverse=True)
        self._t = np.ones(len(self._pairs))
        for _ in range(rounds if len(links) else 0):
            weights = self._t[links]
            weights /= np.bincount(slots, weights)[slots]
            counts = np.bincount(links, weights)
            of_source = self._pairs // len(targets)
            self._t = counts / np.bincount(of_source, counts)[of_source]

    def posteriors(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """How likely every target word comes from every source word; the rest is nobody's. → [target, source]"""
        scores = np.zeros((len(target), 1 + len(source)))
        if len(self._pairs):
            left = np.array([_NOBODY, *(self._sources.get(word, -1) for word in source)])
            right = np.array([self._targets.get(word, -1) for word in target], dtype=np.int64)
            wanted = left[None, :] * len(self._targets) + right[:, None]
            places = np.searchsorted(self._pairs, wanted).clip(max=len(self._pairs) - 1)
            known = (self._pairs[places] == wanted) & (left >= 0)[None, :] & (right >= 0)[:, None]
            scores = np.where(known, self._t[places], 0.0)
        total = scores.sum(axis=1, keepdims=True)
        return np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)[:, 1:]
