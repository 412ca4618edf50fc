"""The numbers that anything can do: one range for each, for options, requests, saved settings and Python alike.

Beyond them a number is a slip of the finger, or asks for more memory or time than there is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """From ``least`` to ``most``, both included. NaN is in no range."""

    least: float
    most: float

    def __contains__(self, number: float) -> bool:
        return self.least <= number <= self.most

    def __str__(self) -> str:
        return f"from {self.least:g} to {self.most:,.15g}"

    def check(self, name: str, number: float) -> None:
        """ValueError, a sentence, for a number outside."""
        if number not in self:
            raise ValueError(f"{name} must be {self}, not {number}")


K = Range(1, 1024)  # neighbours
LAMBDA = Range(0, 1)
TEMPERATURE = Range(1e-6, 1e9)
BEAM = Range(1, 256)
LENGTH_PENALTY = Range(-10, 10)
MAX_LENGTH = Range(1, 100_000)
NPROBE = Range(1, 1 << 20)
RERANK = Range(0, 1024)
DIM = Range(1, 1 << 16)  # of a key
ANY = Range(-(2.0**53), 2.0**53)  # whatever has no range of its own: finite, and exact as an integer
