"""Hypotheses that repeat themselves: how to tell them, and how to keep a search from writing them.

A loop is a phrase of at most ``LONGEST`` tokens that is written several times without a break. How often is too often
depends on its length: "no, no, no" and "5 5 5 5" are things that people say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LONGEST = 16  # tokens of a phrase that may turn into a loop


def rounds(period: int) -> int:
    """How often a phrase of so many tokens stands in a row in a loop."""
    return {1: 6, 2: 4}.get(period, 3)


_REPEATS = [period * (rounds(period) - 1) for period in range(1, LONGEST + 1)]  # tokens that repeat others in a loop
_SEEN = LONGEST + max(_REPEATS)  # tokens at the end that tell all loops


def ends_in_loop(tokens: Tensor) -> Tensor:
    """Whether the last tokens are a loop. tokens: [rows, length] without the prompt → [rows] bool"""
    rows, length = tokens.shape
    latest_first = tokens[:, -_SEEN:].flip(1)
    if length < _SEEN:  # a token that is not there equals no other
        missing = torch.arange(-1, length - _SEEN - 1, -1, device=tokens.device)
        latest_first = torch.cat([latest_first, missing.expand(rows, -1)], dim=1)
    found = _repeated(latest_first, min(_REPEATS)).all(dim=2).any(dim=1)
    if bool(found.any()):  # of those whose last few tokens stood there before, look at all
        repeats = torch.tensor(_REPEATS, device=tokens.device)
        beyond = torch.arange(max(_REPEATS), device=tokens.device) >= repeats[:, None]
        found[found.clone()] = (_repeated(latest_first[found], max(_REPEATS)) | beyond).all(dim=2).any(dim=1)
    return found


def _repeated(latest_first: Tensor, count: int) -> Tensor:
    """Whether each of the last tokens equals the one a period before.

    latest_first: [rows, _SEEN] → [rows, period − 1, count] bool
    """
    shifted = latest_first.unfold(1, count, 1)[:, : LONGEST + 1]
    return shifted[:, 1:] == shifted[:, :1]


@dataclass(frozen=True)
class Loop:
    """start: its first token; period: tokens of a round"""

    start: int
    period: int

    @property
    def after_first_round(self) -> int:
        return self.start + self.period


def first_loop(tokens: Sequence[int]) -> Loop | None:
    """The loop that is complete first, wherever it stands; None if there is none."""
    if len(tokens) - len(set(tokens)) < min(_REPEATS):
        return None  # nearly every sentence
    repeated = [0] * (LONGEST + 1)  # by period: tokens up to this place that equal the one a period before
    for place, token in enumerate(tokens):
        for period in range(1, min(LONGEST, place) + 1):
            repeated[period] = repeated[period] + 1 if tokens[place - period] == token else 0
            if repeated[period] == period * (rounds(period) - 1):
                return Loop(place + 1 - period * rounds(period), period)
    return None


class NoRepeats:
    """A fusion that never writes the same ``size`` tokens in a row twice, as ``no_repeat_ngram_size`` of transformers.

    prompt: tokens of the prompt, which do not count
    """

    def __init__(self, prompt: int, size: int = 3) -> None:
        if size < 1:
            raise ValueError(f"at least one token can be kept from being repeated, not {size}")
        self.prompt = prompt
        self.size = size

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        written = prefixes[:, self.prompt :]
        length = written.shape[1]
        if length < self.size:
            return log_probs
        known = written.unfold(1, self.size, 1)  # [rows, place, size]
        again = (known[:, :, :-1] == written[:, None, length - self.size + 1 :]).all(dim=2)
        banned = torch.zeros_like(log_probs, dtype=torch.int).scatter_add(1, known[:, :, -1], again.int()) > 0
        return log_probs.masked_fill(banned, -torch.inf)
