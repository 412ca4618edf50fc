"""A loop, by lists."""

from __future__ import annotations

from collections.abc import Sequence

from npda.decoding.loops import LONGEST, rounds


def is_loop(tokens: Sequence[int]) -> bool:
    """Whether the last tokens are so many copies of one phrase, copy by copy."""
    for period in range(1, LONGEST + 1):
        copies = [tokens[len(tokens) - (n + 1) * period :][:period] for n in range(rounds(period))]
        if len(tokens) >= period * rounds(period) and all(copy == copies[0] for copy in copies):
            return True
    return False
