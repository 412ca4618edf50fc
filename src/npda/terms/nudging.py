"""A search that is nudged towards phrases which it ought to contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_NEVER = -1.0e9  # as in the search

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Nudge:
    """A `Fusion`: hypotheses get a bonus for each wanted phrase that they contain, as soon as its first token is there.

    Those that leave a phrase halfway lose its bonus again, so that what is found with phrases costs the model at most
    the bonus for each.

    wanted: sentence of the search → wishes, of each ways to fulfil it, in tokens; prompted: tokens of the prompt;
    bonus: in log-probability
    """

    wanted: Mapping[int, Sequence[Sequence[Phrase]]]
    prompted: int
    bonus: float

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        rows = prefixes[:, self.prompted :].tolist()
        result = log_probs.clone()
        for row, (written, sentence) in enumerate(zip(rows, sentences.tolist(), strict=True)):
            for phrases in self.wanted.get(sentence, ()):
                self._nudge(result[row], written, phrases)
        return result

    def _nudge(self, log_probs: Tensor, written: list[int], phrases: Sequence[Phrase]) -> None:
        """One wish of one hypothesis. log_probs: [vocabulary], changed in place"""
        if any(contains(written, phrase) for phrase in phrases):
            return
        started = [(length, phrase) for phrase in phrases for length in _beginnings(written, phrase)]
        if started:
            # What it goes on with keeps the bonus that it has, all else gives it back.
            going_on = torch.tensor(sorted({phrase[length] for length, phrase in started}), device=log_probs.device)
            kept = log_probs[going_on].clone()
            log_probs -= self.bonus
            log_probs[going_on] = kept
        starts = {phrase[0] for phrase in phrases} - {phrase[length] for length, phrase in started}
        log_probs[torch.tensor(sorted(starts), dtype=torch.long, device=log_probs.device)] += self.bonus


def contains(written: Sequence[int], phrase: Phrase) -> bool:
    return any(tuple(written[place : place + len(phrase)]) == phrase for place in range(len(written) - len(phrase) + 1))


def _beginnings(written: Sequence[int], phrase: Phrase) -> list[int]:
    """How much of a phrase stands at the end: every length from 1 to one less than all of it."""
    return [n for n in range(1, len(phrase)) if n <= len(written) and tuple(written[-n:]) == phrase[:n]]
