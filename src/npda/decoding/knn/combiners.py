"""How much each neighbour counts, and how much all of them together: the paper's way, and the seam for others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from npda.io import limits


@dataclass(frozen=True)
class Retrieved:
    """What a combiner may look at: some hypotheses, what the model says of them, and their neighbours.

    states: [rows, dim] decoder states, the queries; log_probs: [rows, vocabulary] of the model;
    distances: [rows, k] squared, rising, +inf where a neighbour is missing; values: [rows, k] tokens, −1 there;
    ids: [rows, k] int64 of the keys, −1 there; an array, because stores are on the processor:
    ``store.entries.keys(ids)`` gives the keys themselves
    """

    states: Tensor
    log_probs: Tensor
    distances: Tensor
    values: Tensor
    ids: np.ndarray


class Combiner(Protocol):
    """How much each neighbour counts, and how much all of them together."""

    def __str__(self) -> str:
        """Its part of a signature."""
        ...

    @property
    def k(self) -> int:
        """Neighbours it wants to see."""
        ...

    @property
    def is_inactive(self) -> bool:
        """Whether the model decides alone, whatever the neighbours are: then no search is needed."""
        ...

    def combine(self, found: Retrieved) -> tuple[Tensor, float | Tensor]:
        """The share of each neighbour in p_kNN, and λ, the weight of p_kNN.

        → weights [rows, k], which sum to 1 or, where nothing was found, are all 0; λ: a number, or [rows, 1]
        """
        ...


@dataclass(frozen=True)
class KnnOptions:
    """The paper's combiner: k neighbours, their weight λ in the mixture, the temperature T of their distances."""

    k: int = 16
    lambda_: float = 0.7
    temperature: float = 10.0

    def __post_init__(self) -> None:
        limits.K.check("k", self.k)
        limits.LAMBDA.check("lambda", self.lambda_)
        limits.TEMPERATURE.check("the temperature", self.temperature)

    def __str__(self) -> str:
        return f"k:{self.k}|λ:{self.lambda_:g}|T:{self.temperature:g}"

    @property
    def is_inactive(self) -> bool:
        return math.isclose(self.lambda_, 0.0)

    def combine(self, found: Retrieved) -> tuple[Tensor, float]:
        return self.weigh(found.distances, found.values)

    def weigh(self, distances: Tensor, values: Tensor) -> tuple[Tensor, float]:
        """``combine`` from distances and values alone, which is all that it looks at."""
        return knn_weights(distances, self.temperature), self.lambda_


def knn_weights(distances: Tensor, temperature: float) -> Tensor:
    """The share of each neighbour in p_kNN: exp(−d²/T), normalised (eq. 2).

    distances: [..., k] squared, infinite where a neighbour is missing → [..., k]; all 0 where all are missing
    """
    return torch.nan_to_num(torch.softmax(distances / -temperature, dim=-1), nan=0.0)


def damped(weights: Tensor, values: Tensor, lambda_: Tensor, token: int, share: float) -> tuple[Tensor, Tensor]:
    """Let votes for one token count for a share only, and hand the rest back to the model.

    p = λ·Σ w'_i·[y = v_i] + (1 − λ·Σ w'_i)·p_model, with w' = share·w for votes for the token, else w.
    weights, values: [rows, k]; lambda_: [rows, 1] → weights that sum to 1 again, and the λ that goes with them
    """
    weights = torch.where(values == token, share * weights, weights)
    left = weights.sum(dim=1, keepdim=True)
    return torch.where(left > 0, weights / left, 0.0), lambda_ * left


def knn_distribution(weights: Tensor, values: Tensor, vocabulary: int) -> Tensor:
    """p_kNN (eq. 2): the neighbours' shares, added up by token.

    weights, values: [rows, k], a missing neighbour has weight 0 → [rows, vocabulary]
    """
    p = weights.new_zeros(len(weights), vocabulary)
    return p.scatter_add_(1, values.clamp(min=0), weights)


def interpolate(log_probs: Tensor, p_knn: Tensor, lambda_: float | Tensor) -> Tensor:
    """log(λ·p_kNN + (1 − λ)·p_model) (eq. 3 and 5); a row without neighbours stays as it is.

    log_probs, p_knn: [rows, vocabulary]; lambda_: a number, or one for each row [rows, 1]
    """
    mixed = torch.log(lambda_ * p_knn + (1 - lambda_) * log_probs.exp())
    return torch.where(p_knn.sum(dim=1, keepdim=True) > 0, mixed, log_probs)


def mixed(log_probs: Tensor, weights: Tensor, values: Tensor, lambda_: float | Tensor) -> Tensor:
    """What ``interpolate`` gives, for the price of k tokens a row: all others are but scaled by 1 − λ.

    log_probs: [rows, vocabulary]; weights, values: as for ``knn_distribution``; lambda_: as for ``interpolate``
    """
    tokens = values.clamp(min=0)
    same = tokens[:, :, None] == tokens[:, None, :]
    p_knn = (same * weights[:, None, :]).sum(dim=2)  # of each neighbour's token: what all who propose it say
    anybody = weights.sum(dim=1, keepdim=True) > 0
    lambda_ = torch.where(anybody, lambda_, 0.0).to(log_probs.dtype)
    scaled = log_probs + torch.log1p(-lambda_)
    return scaled.scatter_(1, tokens, torch.logaddexp(scaled.gather(1, tokens), torch.log(lambda_ * p_knn)))
