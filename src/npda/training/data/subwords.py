"""Subword sampling (Kudo 2018): a transcript in other pieces every time, against learning small data by heart.

It slows learning down: a text encoder that is still getting better on dev with every epoch does not need it.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import exp

import torch

from npda.io.errors import InputError
from npda.text import Vocabulary

_WAYS = 64  # to cut a word: all of most words, the likeliest of long ones
_WORDS = 50_000  # that are kept with their ways


class SubwordSampling:
    """Draws the pieces of every word by themselves, a way to cut it with probability ∝ p ** alpha.

    No piece reaches over a space, so that this is the distribution of whole sentences. It draws from torch's default
    generator, which the training loop seeds for every micro-batch, so that a run that goes on draws as it would have;
    SentencePiece's own is shared by the whole process.

    alpha: 1 for the vocabulary's own probabilities, near 0 for all ways alike
    """

    def __init__(self, vocabulary: Vocabulary, alpha: float) -> None:
        if not 0 < alpha <= 1:
            raise InputError(f"The alpha of subword sampling must lie above 0 and not above 1, but it is {alpha}.")
        self._vocabulary = vocabulary
        self._alpha = alpha
        self._ways = lru_cache(_WORDS)(self._find_ways)

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of every text, as ``Vocabulary.encode`` gives them but for the way its words are cut."""
        words = [text.split() for text in texts]
        draws = iter(torch.rand(sum(map(len, words)), dtype=torch.float64).tolist())
        return [[id_ for word in sentence for id_ in self._draw(word, next(draws))] for sentence in words]

    def _draw(self, word: str, draw: float) -> list[int]:
        ways, sums = self._ways(word)
        return ways[bisect(sums, draw * sums[-1], hi=len(ways) - 1)]

    def _find_ways(self, word: str) -> tuple[list[list[int]], list[float]]:
        """The ways to cut a word, and their weights summed up."""
        found = self._vocabulary.segmentations(word, _WAYS)
        best = found[0][1]
        return [ids for ids, _ in found], list(accumulate(exp(self._alpha * (score - best)) for _, score in found))
