"""Shallow fusion (Gulcehre et al. 2015): a language model scores every next token too."""

from __future__ import annotations

from threading import Lock

import torch
from torch import Tensor

from npda.models.devices import follow
from npda.models.language_model import LanguageModel, LanguageStream

# A row's prefix as one number, modulo 2⁶⁴: an odd factor whose powers spread over all bits.
_FACTOR = 6_364_136_223_846_793_005


class ShallowFusion:
    """log p_model + β·log p_LM, inside the beam.

    A fusion sees prefixes, not what the beam did to its rows. What the language model computed for a prefix is found
    again by the prefix itself: rows that were reordered or left out cost nothing, a prefix never seen is read anew.
    """

    def __init__(self, language_model: LanguageModel, weight: float) -> None:
        """language_model: of the translator's vocabulary, see ``LanguageModel.check``; weight: β"""
        if weight < 0:
            raise ValueError(f"the weight of the language model must not be negative, but it is {weight}")
        self.language_model = language_model
        self.weight = weight
        self._last: tuple[LanguageStream, Tensor] | None = None  # with the prefixes it has read: [rows, length]
        self._lock = Lock()  # two searches at once must not share what was last

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        if self.weight == 0:
            return log_probs  # the model itself, bit for bit
        if log_probs.shape[-1] != len(self.language_model.target):
            raise ValueError("the language model has another vocabulary than the translator")
        with self._lock:
            follow(self.language_model, prefixes)
            own = self._follow(prefixes)
        expected = torch.log_softmax(self.language_model.logits(own).float(), dim=-1)
        return log_probs + self.weight * expected

    def _follow(self, prefixes: Tensor) -> Tensor:
        """The language model's states after the prefixes [rows, length] → [rows, dim]"""
        last, self._last = self._last, None
        stream = self._continued(last, prefixes[:, :-1])
        if stream is None:
            stream = self.language_model.start(len(prefixes))
            own = stream.step(prefixes)
        else:
            own = stream.step(prefixes[:, -1:])
        self._last = stream, prefixes
        return own

    def _continued(self, last: tuple[LanguageStream, Tensor] | None, prefixes: Tensor) -> LanguageStream | None:
        """A stream that has read these prefixes, as far as it can be had from the last step; None if nothing can."""
        if last is None or last[1].shape[1] != prefixes.shape[1] or last[1].device != prefixes.device:
            return None
        stream, known = last
        rows, found = match(prefixes, known)
        if not bool(found.any()):
            return None
        if bool(found.all()):
            stream.select(rows)
            return stream
        missing = (~found).nonzero()[:, 0]
        fresh = self.language_model.start(len(missing))
        fresh.step(prefixes[missing])
        stream.join(fresh)
        rows[missing] = torch.arange(len(missing), device=rows.device) + len(known)
        stream.select(rows)
        return stream


def match(prefixes: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """For each prefix a row of ``known`` that equals it, and whether there is one.

    prefixes: [rows, length], known: [others, length] → [rows], [rows] bool
    """
    ours, theirs = _hashes(prefixes), _hashes(known)
    ordered, order = theirs.sort()
    rows = order[torch.searchsorted(ordered, ours).clamp(max=len(order) - 1)]
    # Two prefixes of one hash would be told apart here, and the second read anew.
    return rows, (known[rows] == prefixes).all(dim=1)


def _hashes(prefixes: Tensor) -> Tensor:
    """[rows, length] → [rows] int64, equal for equal prefixes"""
    powers = torch.full_like(prefixes[0], _FACTOR).cumprod(dim=0)
    return (prefixes * powers).sum(dim=1)
