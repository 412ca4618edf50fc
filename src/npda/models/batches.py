"""Which inputs share a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def cut(order: Iterable[int], lengths: Sequence[int], room: int, most: int | None = None) -> list[list[int]]:
    """Inputs in the given order, cut where a padded batch would be too large.

    order: indices, sorted so that neighbours are of similar length; lengths: of every input, in frames or tokens
    room: frames or tokens of a batch, padding included; a longer input is a batch of its own
    most: inputs of a batch, any number by default
    """
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if batch and (len(batch) == most or longest * (len(batch) + 1) > room):
            batches.append(batch)
            batch, longest = [], lengths[index]
        batch.append(index)
    return [*batches, batch] if batch else batches
