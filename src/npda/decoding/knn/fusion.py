"""Nearest neighbours have a say in every next token (sections 2.2 and 3.2 of the paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from npda.datastore.retrieval.local import Neighbours, Retriever


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
        """Whether the model decides alone, whoever the neighbours are: then nobody needs to search."""
        ...

    def combine(self, distances: Tensor, values: Tensor) -> tuple[Tensor, float | Tensor]:
        """The share of each neighbour in p_kNN, and λ, the weight of p_kNN.

        distances: [rows, k] squared, rising, +inf where a neighbour is missing; values: [rows, k] tokens, −1 there
        → weights [rows, k], which sum to 1 or, where nobody was found, are all 0; λ: a number, or [rows, 1]
        """
        ...


@dataclass(frozen=True)
class KnnOptions:
    """The paper's combiner: k neighbours, their weight λ in the mixture, the temperature T of their distances."""

    k: int = 16
    lambda_: float = 0.7
    temperature: float = 10.0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k must be at least 1, not {self.k}")
        if not 0 <= self.lambda_ <= 1:
            raise ValueError(f"lambda must lie between 0 and 1, not {self.lambda_}")
        if self.temperature <= 0:
            raise ValueError(f"the temperature must be above 0, not {self.temperature}")

    def __str__(self) -> str:
        return f"k:{self.k}|λ:{self.lambda_:g}|T:{self.temperature:g}"

    @property
    def is_inactive(self) -> bool:
        return math.isclose(self.lambda_, 0.0)

    def combine(self, distances: Tensor, values: Tensor) -> tuple[Tensor, float | Tensor]:
        return knn_weights(distances, self.temperature), self.lambda_


def knn_weights(distances: Tensor, temperature: float) -> Tensor:
    """The share of each neighbour in p_kNN: exp(−d²/T), normalised (eq. 2).

    distances: [..., k] squared, infinite where a neighbour is missing → [..., k]; all 0 where all are missing
    """
    return torch.nan_to_num(torch.softmax(distances / -temperature, dim=-1), nan=0.0)


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


class KnnFusion:
    """The mixture of eq. 5, inside the beam.

    combiner: the paper's, which is its ``KnnOptions``, or a learned one
    """

    def __init__(self, retriever: Retriever, combiner: Combiner) -> None:
        self.retriever = retriever
        self.combiner = combiner

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        if self.combiner.is_inactive:
            return log_probs  # the model itself, bit for bit
        queries, tokens, of = states.float().cpu().numpy(), prefixes.cpu().numpy(), sentences.cpu().numpy()
        # The beams of a sentence stand together and begin alike: of equal rows in a row one is searched for.
        new = (queries[1:] != queries[:-1]).any(axis=1) | (of[1:] != of[:-1])
        if new.all():
            found = self.find(queries, tokens, of)
        else:
            first = np.append(True, new)
            found = self.find(queries[first], tokens[first], of[first]).of(np.cumsum(first) - 1)
        distances = torch.from_numpy(found.distances).to(states.device)
        values = torch.from_numpy(found.values).to(states.device, torch.long)
        weights, lambda_ = self.combiner.combine(distances, values)
        return mixed(log_probs, weights, values, lambda_)

    def find(self, queries: np.ndarray, prefixes: np.ndarray, sentences: np.ndarray) -> Neighbours:
        """The k nearest keys of some hypotheses.

        queries: [rows, dim] their states; prefixes: [rows, length]; sentences: [rows]
        """
        return self.retriever.search(queries, self.combiner.k)
