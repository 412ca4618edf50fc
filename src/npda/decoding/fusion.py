"""The seam where something else than the model has a say in the next token."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Fusion(Protocol):
    """Applied in order at every step of the search, for all live hypotheses at once."""

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor) -> Tensor:
        """Return new log-probabilities.

        states: [rows, dim] decoder states; log_probs: [rows, vocabulary];
        prefixes: [rows, length] the tokens so far, prompt included
        """
        ...
