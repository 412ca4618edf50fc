"""The seam where something besides the model influences the next token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor


class Fusion(Protocol):
    """Applied in order at every step of the search, for all live hypotheses at once."""

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        """Return new log-probabilities; the search may write over them.

        states: [rows, dim] decoder states; log_probs: [rows, vocabulary];
        prefixes: [rows, length] the tokens so far, prompt included; sentences: [rows] which of those that are searched
        for together each hypothesis is of
        """
        ...


# What is left to do of a fusion's step: log_probs [rows, vocabulary] → new ones
Finish = Callable[[Tensor], Tensor]


@runtime_checkable
class EarlyFusion(Fusion, Protocol):
    """A fusion that can begin before the model's own log-probabilities are there.

    On an accelerator, its way to the processor and the output layer of the model then take their time together.
    """

    def begin(self, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
        """As ``apply``, in two halves."""
        ...


@runtime_checkable
class WeighingFusion(Fusion, Protocol):
    """A fusion that knows how much each of its stores had to say."""

    def weights(self, prefix: np.ndarray, sentence: int) -> dict[str, float]:
        """The mean weight of every store along a hypothesis of the last search.

        prefix: [length] what it was before its last token, prompt included; sentence: of those searched for together
        """
        ...


@runtime_checkable
class LengthFusion(Fusion, Protocol):
    """A fusion that has its own idea of how long translations are."""

    def length_penalties(self, alphas: Tensor, sentences: Tensor) -> Tensor:
        """The length penalties of sentences after this step, which may differ from those of the step before.

        alphas: [n] of the search; sentences: [n], of those searched for together → [n]
        """
        ...


@runtime_checkable
class RememberingFusion(Fusion, Protocol):
    """A fusion that remembers something from step to step of a search."""

    def new_search(self) -> None:
        """Forget what was: the next step is the first of a search."""
        ...


@runtime_checkable
class DividedFusion(Fusion, Protocol):
    """A fusion that does not treat all sentences alike."""

    def for_sentences(self, sentences: Sequence[int]) -> Fusion | None:
        """The fusion for a search for these of the sentences alone, in this order; None if it would do nothing."""
        ...


def new_search(fusion: Fusion) -> None:
    """Tell any fusion that a search begins."""
    if isinstance(fusion, RememberingFusion):
        fusion.new_search()


def length_penalties(fusions: Sequence[Fusion], alphas: Tensor, sentences: Tensor) -> Tensor:
    """By which the hypotheses of these sentences are to be judged. alphas: [n] of the search; sentences: [n] → [n]"""
    for fusion in fusions:
        if isinstance(fusion, LengthFusion):
            alphas = fusion.length_penalties(alphas, sentences)
    return alphas


def of_sentences(fusions: Sequence[Fusion], sentences: Sequence[int]) -> list[Fusion]:
    """The fusions to use when these sentences are searched for again, in this order."""
    divided = [fusion.for_sentences(sentences) if isinstance(fusion, DividedFusion) else fusion for fusion in fusions]
    return [fusion for fusion in divided if fusion is not None]


def begin(fusion: Fusion, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
    """Begin a step of any fusion; what comes back finishes it."""
    if isinstance(fusion, EarlyFusion):
        return fusion.begin(states, prefixes, sentences)
    return lambda log_probs: fusion.apply(states, log_probs, prefixes, sentences)


class Beginnings:
    """Tells where a search begins: its prefixes are no longer than those of the step before.

    A sentence without an end is searched for again (``decoding.retry``), with these fusions or with none. Prompts may
    differ in length from search to search; then only ``forget`` tells (see ``RememberingFusion``).
    """

    def __init__(self) -> None:
        self._length = 0

    def __call__(self, length: int) -> bool:
        """Whether a step whose prefixes have this length is the first of a search. For one search at a time."""
        begins, self._length = length <= self._length or self._length == 0, length
        return begins

    def forget(self) -> None:
        """The next step is the first of a search."""
        self._length = 0
