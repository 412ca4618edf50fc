"""Adaptive retrieval (He et al. 2021): no search where the model knows the next token by itself."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from npda.decoding.fusion import Fusion, new_search
from npda.models.devices import follow

SIGNS = 4  # of certainty, see ``signs``


class Gate(Protocol):
    """Tells before a search whether it is worth its while."""

    def worthwhile(self, states: Tensor, log_probs: Tensor) -> Tensor:
        """states: [rows, dim]; log_probs: [rows, vocabulary] → [rows] bool"""
        ...


class SureGate:
    """Searches unless the model gives its favourite token at least this probability."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def worthwhile(self, states: Tensor, log_probs: Tensor) -> Tensor:
        return log_probs.max(dim=1).values.exp() < self.threshold


class LearnedGate(nn.Module):
    """Searches where a small network, shown the state and the model's certainty, expects neighbours to help.

    threshold: in nats of the reference token; where the network expects less, the search is left out
    """

    threshold: Tensor

    def __init__(self, dim: int, hidden: int = 128) -> None:
        super().__init__()
        self.state = nn.Sequential(nn.LayerNorm(dim, elementwise_affine=False), nn.Linear(dim, hidden))
        self.certainty = nn.Linear(SIGNS, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)
        self.register_buffer("threshold", torch.zeros(()))

    def forward(self, states: Tensor, certainty: Tensor) -> Tensor:
        """How much likelier neighbours make the right token. states: [rows, dim]; certainty: [rows, SIGNS] → [rows]"""
        return self.out(torch.relu(self.state(states) + self.certainty(certainty)))[:, 0]

    @torch.inference_mode()
    def worthwhile(self, states: Tensor, log_probs: Tensor) -> Tensor:
        follow(self, states)
        return self(states.float(), signs(states, log_probs)) >= self.threshold


def signs(states: Tensor, log_probs: Tensor) -> Tensor:
    """What tells how sure a model is: log p of its favourite, the lead of it, the entropy, the length of the state.

    states: [rows, dim]; log_probs: [rows, vocabulary] → [rows, SIGNS], each of a size around 1
    """
    first, second = log_probs.topk(2, dim=1).values.float().unbind(dim=1)
    entropy = torch.special.entr(log_probs.float().exp()).sum(dim=1)
    length = torch.linalg.vector_norm(states.float(), dim=1) / states.shape[1] ** 0.5
    return torch.stack([first, (first - second) / 4, entropy, length], dim=1)


class SkippingFusion:
    """Another fusion, asked only for the rows a gate lets through; the rest stays what the model says.

    asked, skipped: rows so far, all of them and those nobody searched for
    """

    def __init__(self, fusion: Fusion, gate: Gate) -> None:
        self.fusion = fusion
        self.gate = gate
        self.asked = 0
        self.skipped = 0

    @property
    def share_skipped(self) -> float:
        return self.skipped / self.asked if self.asked else 0.0

    def new_search(self) -> None:
        new_search(self.fusion)

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        rows = self.gate.worthwhile(states, log_probs).nonzero()[:, 0]
        self.asked += len(states)
        self.skipped += len(states) - len(rows)
        if len(rows) == len(states):
            return self.fusion.apply(states, log_probs, prefixes, sentences)
        if len(rows) == 0:
            return log_probs
        asked = (column[rows] for column in (states, log_probs, prefixes, sentences))
        return log_probs.index_copy(0, rows, self.fusion.apply(*asked))
