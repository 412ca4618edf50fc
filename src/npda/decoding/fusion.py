"""The seam where something else than the model has a say in the next token."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Fusion(Protocol):
    """Applied in order at every step of the search, for all live hypotheses at once."""

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        """Return new log-probabilities.

        states: [rows, dim] decoder states; log_probs: [rows, vocabulary];
        prefixes: [rows, length] the tokens so far, prompt included; sentences: [rows] which of those that are searched
        for together each hypothesis is of
        """
        ...


class Beginnings:
    """Tells where a search begins: its prefixes are no longer than those of the step before."""

    def __init__(self) -> None:
        self._length = 0

    def __call__(self, length: int) -> bool:
        """Whether a step whose prefixes have this length is the first of a search. For one search at a time."""
        begins, self._length = length <= self._length or self._length == 0, length
        return begins
