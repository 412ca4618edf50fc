"""What waits for the machine, and what is computed next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from npda.translation import BATCH_FRAMES

_CHOICE = 2  # batches of utterances among which those of a suitable length are looked for


@dataclass(eq=False)
class Waiting:
    """An utterance, or some other work.

    request: whose it is; kind: equal where utterances may be decoded together, None for what is done alone;
    length: in frames; entered: when, in seconds of any clock
    """

    request: object
    kind: Hashable | None
    length: int
    entered: float


class Line:
    """Waiting work, in the order of its arrival. Requests take turns, so that long ones do not hold up others."""

    def __init__(self, room: int = BATCH_FRAMES) -> None:
        """room: padded frames of a batch"""
        self._room = room
        self._waiting: list[Any] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Waiting) -> None:
        self._waiting.append(item)

    def remove(self, item: Waiting) -> None:
        """Nobody wants it any more. No error if it has left the line already."""
        if item in self._waiting:
            self._waiting.remove(item)

    def clear(self) -> list[Any]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def next(self, most: int) -> list[Any]:
        """Take what is computed next: the first in turn and, as far as there are any, others that suit it.

        Of all requests the first utterances come before their second ones, and so on. most: utterances
        """
        ordered = in_turns(self._waiting)
        if not ordered:
            return []
        first, *others = ordered
        chosen = [first]
        if first.kind is not None:
            mates = [item for item in others if item.kind == first.kind][: _CHOICE * most]
            chosen += suitable(first, mates, most - 1, self._room)
        taken = set(map(id, chosen))
        self._waiting = [item for item in self._waiting if id(item) not in taken]
        return chosen


def in_turns(waiting: Iterable[Waiting]) -> list[Any]:
    """The first of every request, then the second of every request …, each round in the order of arrival."""
    turns: Counter[int] = Counter()
    placed = []
    for place, item in enumerate(waiting):
        placed.append((turns[id(item.request)], place, item))
        turns[id(item.request)] += 1
    return [item for _, _, item in sorted(placed, key=lambda entry: entry[:2])]


def suitable(first: Waiting, mates: Sequence[Waiting], most: int, room: int) -> list[Waiting]:
    """Those nearest in length to the first, as many as there is room for when all are padded to the longest."""
    chosen: list[Waiting] = []
    longest = first.length
    for mate in sorted(mates, key=lambda item: abs(item.length - first.length)):
        longest = max(longest, mate.length)
        if len(chosen) == most or longest * (len(chosen) + 2) > room:
            break
        chosen.append(mate)
    return chosen
