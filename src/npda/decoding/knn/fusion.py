"""Nearest neighbours vote for every next token (sections 2.2 and 3.2 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from npda.datastore.retrieval.protocol import Neighbours, Retriever
from npda.decoding.fusion import Finish
from npda.decoding.knn.combiners import Combiner, Retrieved, damped, mixed
from npda.models.devices import to_host


@dataclass(frozen=True)
class Asked:
    """The hypotheses of one step, on the processor, where stores are.

    queries: [rows, dim] float32 decoder states; prefixes: [rows, length] tokens, prompt included; sentences: [rows]
    which of those that are searched for together each hypothesis is of
    """

    queries: np.ndarray
    prefixes: np.ndarray
    sentences: np.ndarray


@dataclass(frozen=True)
class Say:
    """What neighbours have to say in one step, those of several stores side by side.

    weights: [rows, k] shares of each in p_kNN, which sum to 1, or are all 0 where none votes; values: [rows, k]
    tokens, −1 where a neighbour is missing; lambda_: [rows, 1] weight of p_kNN; distances, ids: [rows, k] as found;
    stores: [k] which store each column is from; opened: [rows, stores] how far the gate of each store is open
    """

    weights: Tensor
    values: Tensor
    lambda_: Tensor
    distances: np.ndarray
    ids: np.ndarray
    stores: np.ndarray
    opened: np.ndarray


class NeighbourFusion(Protocol):
    """A fusion that can tell what its neighbours say: ``KnnFusion`` and ``GuardedFusion``, for explanations."""

    @property
    def retrievers(self) -> list[Retriever]:
        """One for each store of a ``Say``."""
        ...

    def __str__(self) -> str:
        """Its part of a signature."""
        ...

    @property
    def is_inactive(self) -> bool: ...

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor: ...

    def say(self, states: Tensor, log_probs: Tensor, asked: Asked) -> Say:
        """One step of a search; the steps of one come in their order."""
        ...


@dataclass(frozen=True)
class EndVotes:
    """What becomes of votes for the end of the sentence: a key at the end of another one says little about this one.

    end: the end symbol; weight: 1 counts them as the paper does, 0 leaves the end to the model
    """

    end: int
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(f"the weight of votes for the end must lie between 0 and 1, not {self.weight}")


class KnnFusion:
    """The mixture of eq. 5, inside the beam.

    combiner: the paper's, which is its ``KnnOptions``, a learned one, or your own; end_votes: by default as the paper
    """

    def __init__(self, retriever: Retriever, combiner: Combiner, end_votes: EndVotes | None = None) -> None:
        self.retriever = retriever
        self.combiner = combiner
        self.end_votes = end_votes

    def __str__(self) -> str:
        return f"{self.combiner}{end_signature(self.end_votes)}"

    @property
    def is_inactive(self) -> bool:
        return self.combiner.is_inactive

    @property
    def retrievers(self) -> list[Retriever]:
        return [self.retriever]

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        return self.begin(states, prefixes, sentences)(log_probs)

    def begin(self, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
        if self.is_inactive:
            return lambda log_probs: log_probs  # the model itself, bit for bit
        return begin_say(self, states, prefixes, sentences)

    def say(self, states: Tensor, log_probs: Tensor, asked: Asked) -> Say:
        found = search_once(asked, self.find)
        weights, values, lambda_ = weigh(self.combiner, self.end_votes, states, log_probs, found)
        opened = np.ones((len(found.ids), 1), np.float32)
        return Say(weights, values, lambda_, found.distances, found.ids, np.zeros(found.ids.shape[1], int), opened)

    def find(self, queries: np.ndarray, prefixes: np.ndarray, sentences: np.ndarray) -> Neighbours:
        """The k nearest keys of some hypotheses.

        queries: [rows, dim] their states; prefixes: [rows, length]; sentences: [rows]
        """
        return self.retriever.search(queries, self.combiner.k)


def begin_say(fusion: NeighbourFusion, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
    """A step of a fusion of neighbours, in two halves: see ``EarlyFusion``."""
    copied = to_host(states.float(), prefixes, sentences)

    def finish(log_probs: Tensor) -> Tensor:
        said = fusion.say(states, log_probs, Asked(*copied()))
        return mixed(log_probs, said.weights, said.values, said.lambda_)

    return finish


def distinct_rows(asked: Asked) -> tuple[Asked, np.ndarray | None]:
    """The beams of a sentence stand together and begin alike: of equal rows in a row one is enough.

    → those that differ, and for every row its place among them, or None where all differ
    """
    queries, of = asked.queries, asked.sentences
    if (queries[1:, 0] != queries[:-1, 0]).all():  # as a rule one component tells
        return asked, None
    new = (queries[1:] != queries[:-1]).any(axis=1) | (of[1:] != of[:-1])
    if new.all():
        return asked, None
    first = np.append(True, new)
    return Asked(queries[first], asked.prefixes[first], of[first]), np.cumsum(first) - 1


def search_once(asked: Asked, find: Callable[[np.ndarray, np.ndarray, np.ndarray], Neighbours]) -> Neighbours:
    """``find(queries, prefixes, sentences)`` of the rows that differ, for all rows."""
    different, places = distinct_rows(asked)
    found = find(different.queries, different.prefixes, different.sentences)
    return found if places is None else found.of(places)


def weigh(
    combiner: Combiner, end_votes: EndVotes | None, states: Tensor, log_probs: Tensor, found: Neighbours
) -> tuple[Tensor, Tensor, Tensor]:
    """Shares [rows, k], tokens [rows, k] and λ [rows, 1] of what was found; λ is 0 where nothing was."""
    distances = torch.from_numpy(found.distances).to(states.device)
    values = torch.from_numpy(found.values).to(states.device, torch.long)
    weights, lambda_ = combiner.combine(Retrieved(states, log_probs, distances, values, found.ids))
    lambda_ = torch.where(weights.sum(dim=1, keepdim=True) > 0, lambda_, 0.0).to(log_probs.dtype)
    if end_votes is not None and end_votes.weight < 1:
        weights, lambda_ = damped(weights, values, lambda_, end_votes.end, end_votes.weight)
    return weights, values, lambda_


def end_signature(end_votes: EndVotes | None) -> str:
    """Nothing, where votes for the end count in full."""
    return f"|end:{end_votes.weight:g}" if end_votes is not None and end_votes.weight < 1 else ""
