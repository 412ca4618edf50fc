"""What the engine tells those who measure it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# load: a model; hear: from samples to features; wait: in the line; search: a batch, from features to text
Phase = Literal["load", "hear", "wait", "search"]


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """Called from several threads, and expected to be quick.

    phase: seconds that it took; batch: utterances decoded together; searches: hypotheses of one step for which stores
    were searched
    """

    phase: Callable[[Phase, float], None] = _ignore
    batch: Callable[[int], None] = _ignore
    searches: Callable[[int], None] = _ignore
