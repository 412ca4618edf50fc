"""The last step of a text path: what a decoder state would be, had the sentence been heard instead of read."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class StateMap(nn.Module):
    """An affine map of decoder states. Fitted in closed form once a text path is trained, and kept with its weights.

    weight: [dim, dim]; bias: [dim]
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.eye(dim))
        self.register_buffer("bias", torch.zeros(dim))

    @classmethod
    def among(cls, weights: Mapping[str, Tensor], dim: int) -> StateMap | None:
        """Where to load the map of a text encoder to, if there is one among its weights."""
        return cls(dim) if any(name.startswith("state_map.") for name in weights) else None

    def forward(self, states: Tensor) -> Tensor:
        """[..., dim] → [..., dim]"""
        return states @ self.weight + self.bias


class StateMapFit:
    """Ridge regression of heard states on read ones, from sums alone: as many pairs of states as there are.

    The map that minimises Σ |heard − map(read)|² + strength · n · v · |weight|², with v the mean variance of a
    dimension of the read states.
    """

    def __init__(self, dim: int) -> None:
        self._n = 0
        self._read, self._heard = torch.zeros(dim, dtype=torch.float64), torch.zeros(dim, dtype=torch.float64)
        self._within = torch.zeros(dim, dim, dtype=torch.float64)
        self._across = torch.zeros(dim, dim, dtype=torch.float64)

    def add(self, read: Tensor, heard: Tensor) -> None:
        """States of the same positions. read, heard: [n, dim]"""
        read, heard = read.double().cpu(), heard.double().cpu()
        self._n += len(read)
        self._read += read.sum(dim=0)
        self._heard += heard.sum(dim=0)
        self._within += read.T @ read
        self._across += read.T @ heard

    def solve(self, strength: float) -> StateMap:
        read, heard = self._read / self._n, self._heard / self._n
        within = self._within / self._n - torch.outer(read, read)
        across = self._across / self._n - torch.outer(read, heard)
        dim = len(read)
        weight = torch.linalg.solve(within + strength * within.diagonal().mean() * torch.eye(dim).double(), across)
        found = StateMap(dim)
        found.weight.copy_(weight)
        found.bias.copy_(heard - read @ weight)
        return found
