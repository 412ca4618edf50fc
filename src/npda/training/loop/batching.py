"""Which examples make a batch, and which batches an update: functions of the seed and the epoch alone.

Nothing here depends on the number of processes or on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from npda.models.batches import cut

_JITTER = 0.1  # lengths are off by up to this share when sorted, so that batches differ from epoch to epoch


class UpdatePlan(Protocol):
    """Which batches the loop makes updates of."""

    def epoch(self, number: int) -> list[list[list[int]]]:
        """The updates of an epoch: lists of micro-batches, which are lists of indices of examples."""
        ...


@dataclass(frozen=True)
class BatchPlan:
    """Batches of similar length.

    lengths: frames (or tokens) of every example
    batch_frames: most frames of a batch, padding included; a longer example is a batch of its own
    batches_per_update: micro-batches of an update; the last update of an epoch may have fewer
    """

    lengths: Sequence[int]
    batch_frames: int
    batches_per_update: int
    seed: int

    def epoch(self, number: int) -> list[list[list[int]]]:
        random = np.random.default_rng([self.seed, number])
        jitter = random.uniform(1 - _JITTER, 1 + _JITTER, len(self.lengths))
        order = np.argsort(np.asarray(self.lengths) * jitter, kind="stable")
        batches = cut(order.tolist(), self.lengths, self.batch_frames)
        batches = [batches[i] for i in random.permutation(len(batches))]
        step = self.batches_per_update
        return [batches[i : i + step] for i in range(0, len(batches), step)]


def by_length(lengths: Sequence[int], batch_frames: int) -> list[list[int]]:
    """All examples once, shortest first, in batches: for evaluation."""
    return cut(np.argsort(np.asarray(lengths), kind="stable").tolist(), lengths, batch_frames)


def derived_seed(seed: int, update: int, micro_batch: int) -> int:
    """The seed of everything random in one micro-batch: dropout, masks.

    Each micro-batch starts from its own seed, so that a run can go on anywhere, with any number of processes.
    """
    return int(np.random.SeedSequence([seed, update, micro_batch]).generate_state(1, np.uint64)[0])
