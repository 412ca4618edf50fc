"""Two kinds of data in every update: loss = the sum of both objectives, each a mean over its own tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import Any

import torch
from torch import Tensor, nn

from npda.training.data.speech import Data
from npda.training.loop.batching import BatchPlan
from npda.training.objectives.translation import Objective


@dataclass(frozen=True)
class Second:
    """A batch of the second kind; those of the first stay as they are."""

    batch: Any

    def to(self, device: torch.device) -> Second:
        return Second(self.batch.to(device))


class Mixed(Objective):
    """The terms of the first objective, and those of the second with a prefix. Dev data are of the first kind."""

    def __init__(self, first: Objective, second: Objective, prefix: str) -> None:
        super().__init__()
        self.first, self.second, self.prefix = first, second, prefix
        self.terms = (*first.terms, *(prefix + term for term in second.terms))
        self.weights = {**first.weights, **{prefix + term: weight for term, weight in second.weights.items()}}

    def counts(self, batch: Any) -> dict[str, int]:
        if isinstance(batch, Second):
            return {self.prefix + term: number for term, number in self.second.counts(batch.batch).items()}
        return self.first.counts(batch)

    def forward(self, batch: Any) -> dict[str, Tensor]:
        if isinstance(batch, Second):
            return {self.prefix + term: value for term, value in self.second(batch.batch).items()}
        return self.first(batch)

    def selection(self, means: Mapping[str, float]) -> float:
        return self.first.selection(means)

    def teachers(self) -> Iterable[nn.Module]:
        return chain(self.first.teachers(), self.second.teachers())


class MixedData:
    """Examples of the first kind, then those of the second; a batch is of one kind."""

    def __init__(self, first: Data, second: Data) -> None:
        self.first, self.second = first, second
        self.lengths: Sequence[int] = [*first.lengths, *second.lengths]
        self.dropped = first.dropped + second.dropped

    def fingerprint(self) -> str:
        return self.first.fingerprint() + self.second.fingerprint()

    def batch(self, indices: Sequence[int]) -> Any:
        split = len(self.first.lengths)
        if indices[0] < split:
            return self.first.batch(indices)
        return Second(self.second.batch([index - split for index in indices]))


@dataclass(frozen=True)
class MixedPlan:
    """Beside every update of the first kind one of the second. An epoch is one of the first; the second goes on where
    it was left."""

    first: BatchPlan
    second: BatchPlan

    def epoch(self, number: int) -> list[list[list[int]]]:
        done = sum(len(self.first.epoch(earlier)) for earlier in range(number))
        first = self.first.epoch(number)
        second = islice(self._endless(), done, done + len(first))
        split = len(self.first.lengths)
        # All of the first kind before the second: processes, which take turns, get batches of both.
        return [
            [*one, *([split + index for index in batch] for batch in other)]
            for one, other in zip(first, second, strict=True)
        ]

    def _endless(self) -> Iterator[list[list[int]]]:
        for number in count():
            yield from self.second.epoch(number)
