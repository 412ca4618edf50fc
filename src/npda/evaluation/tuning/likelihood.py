"""How likely a dev set is under every k, λ and T at once: one pass of the decoder, one retrieval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from npda.datastore.retrieval.protocol import Retriever
from npda.decoding.knn.combiners import KnnOptions, knn_weights
from npda.evaluation.devset import DevSet

_SCALE_NEIGHBOUR = 8  # whose distance stands for the scale of a store


@dataclass(frozen=True)
class Axis:
    """Rising values of one parameter, and what may be added beyond either end, the nearest first."""

    values: tuple[float, ...]
    below: tuple[float, ...] = ()
    above: tuple[float, ...] = ()

    def extended(self, best: float) -> Axis:
        """One value more beyond the end at which the best one lies, or the axis as it is."""
        if best == self.values[-1] and self.above:
            return Axis((*self.values, self.above[0]), self.below, self.above[1:])
        if best == self.values[0] and self.below:
            return Axis((self.below[0], *self.values), self.below[1:], self.above)
        return self

    def times(self, factor: float) -> Axis:
        # Twelve digits: 20 × 0.3 is to be called 6.
        return Axis(
            *(tuple(float(f"{v * factor:.12g}") for v in part) for part in (self.values, self.below, self.above))
        )

    def beside(self, value: float, distance: int = 1) -> tuple[float, ...]:
        """The values so many places below and above one of the axis, where there are any."""
        place = self.values.index(value)
        return tuple(self.values[i] for i in (place - distance, place + distance) if 0 <= i < len(self.values))


@dataclass(frozen=True)
class Grid:
    """The parameters to choose from; as it stands, the paper's 4 × 9 × 6 points."""

    k: Axis = Axis((4, 8, 16, 32), below=(2, 1), above=(64,))
    lambda_: Axis = Axis((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), below=(0.05, 0.02), above=(0.95, 0.98))
    temperature: Axis = Axis((1.0, 10.0, 20.0, 50.0, 100.0, 200.0), below=(0.5, 0.2), above=(500.0, 1000.0))

    @property
    def largest_k(self) -> int:
        """With every extension."""
        return int(max(*self.k.values, *self.k.above))

    def points(self) -> list[KnnOptions]:
        """k by k, in it λ by λ, in it T by T."""
        axes = self.k.values, self.lambda_.values, self.temperature.values
        return [KnnOptions(int(k), lambda_, temperature) for k, lambda_, temperature in product(*axes)]

    def extended(self, best: KnnOptions) -> Grid:
        """Wider wherever the best point lies at an edge and there is room."""
        return Grid(
            self.k.extended(best.k),
            self.lambda_.extended(best.lambda_),
            self.temperature.extended(best.temperature),
        )

    def scaled(self, factor: float) -> Grid:
        """Other temperatures, for distances on another scale."""
        return replace(self, temperature=self.temperature.times(factor))


@dataclass(frozen=True)
class DevNeighbours:
    """What the model and the datastore say of every token of a dev set.

    log_probs: [positions] float64, of the reference token by the model alone;
    distances: [positions, k] float64 squared, +inf where a neighbour is missing;
    right: [positions, k] bool, whether a neighbour's value is the reference token
    """

    log_probs: Tensor
    distances: Tensor
    right: Tensor

    @property
    def alone(self) -> float:
        """The mean log-probability of a reference token by the model alone."""
        return float(self.log_probs.mean())

    @property
    def scale(self) -> float:
        """The median squared distance to the 8th neighbour (the last one, where there are fewer)."""
        eighth = self.distances[:, :_SCALE_NEIGHBOUR].masked_fill(self.distances[:, :_SCALE_NEIGHBOUR].isinf(), -1.0)
        furthest = eighth.max(dim=1).values
        found = furthest[furthest >= 0]
        return float(found.median()) if len(found) else 0.0

    @property
    def share_of_known(self) -> float:
        """The share of positions whose own state is a key: near 1 when the dev set itself is in the store."""
        return float((self.distances[:, 0] <= 1e-4 * self.scale).double().mean())


@dataclass(frozen=True)
class Forced:
    """A batch of a dev set, its references forced on the decoder.

    places: of its sentences in ``DevSet.examples``; lengths: of their targets, end symbols included;
    states: [positions, dim]; log_probs: [positions, vocabulary] of the model alone; references: [positions] tokens.
    Sentences follow each other.
    """

    places: tuple[int, ...]
    lengths: tuple[int, ...]
    states: Tensor
    log_probs: Tensor
    references: Tensor


@torch.inference_mode()
def forced(devset: DevSet) -> Iterator[Forced]:
    """Every batch of a dev set in turn."""
    for batch in devset.batches:
        states = torch.cat(devset.states(batch, devset.memory(batch)))
        references = torch.tensor([token for place in batch.places for token in devset.examples[place].target])
        log_probs = torch.log_softmax(devset.backbone.logits(states).float(), dim=-1).cpu()
        lengths = tuple(len(devset.examples[place].target) for place in batch.places)
        yield Forced(batch.places, lengths, states.float().cpu(), log_probs, references)


@torch.inference_mode()
def gather(
    devset: DevSet, retriever: Retriever, k: int, advance: Callable[[int], None] = lambda done: None
) -> DevNeighbours:
    """Force the references on the decoder, and ask the store once for the k neighbours of every state.

    advance: called with the number of sentences of every batch that is done
    """
    log_probs, distances, right = [], [], []
    for batch in forced(devset):
        found = retriever.search(batch.states.numpy(), k)
        log_probs.append(batch.log_probs.gather(1, batch.references[:, None])[:, 0].double())
        distances.append(torch.from_numpy(found.distances.astype(np.float64)))
        right.append(torch.from_numpy(found.values == batch.references.numpy()[:, None]))
        advance(len(batch.places))
    return DevNeighbours(torch.cat(log_probs), torch.cat(distances), torch.cat(right))


def log_likelihoods(evidence: DevNeighbours, grid: Grid) -> list[float]:
    """The mean log-probability of a reference token (eq. 5), at each of ``grid.points()``.

    The neighbours' say in it depends on k and T alone; λ is then one line of arithmetic.
    """
    alone = evidence.distances[:, 0].isinf()
    found = {}
    for k, temperature in product(grid.k.values, grid.temperature.values):
        weights = knn_weights(evidence.distances[:, : int(k)], temperature)
        p_knn = (weights * evidence.right[:, : int(k)]).sum(dim=1)
        for lambda_ in grid.lambda_.values:
            neighbours = p_knn.log() + np.log(lambda_)
            mixed = torch.logaddexp(neighbours, evidence.log_probs + np.log1p(-lambda_))
            mixed = torch.where(alone, evidence.log_probs, mixed)
            found[KnnOptions(int(k), lambda_, temperature)] = float(mixed.mean())
    return [found[point] for point in grid.points()]
