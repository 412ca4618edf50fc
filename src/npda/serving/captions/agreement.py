"""Which words of a translation stay while its sentence is still being spoken: those on which successive passes agree.

LocalAgreement: what the last two passes begin with alike, in whole words, and not their last few words, which more
speech changes most often. What was once declared stable is only ever extended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from npda.terms.replacing import Replacement

Decode = Callable[[Sequence[int]], str]

# Thai, Lao, Burmese, Khmer, Chinese and Japanese put no spaces between words: there, every character is one.
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
_WORD = re.compile(rf"\s*(?:[{_SPACELESS}]|[^\s{_SPACELESS}]+)")


def words(text: str) -> list[str]:
    """The words of a text, each with the white space before it: together they are the text."""
    return _WORD.findall(text.strip())


class Said(Protocol):
    """What a pass found, as far as it matters here: an ``npda.translation.Translation``."""

    @property
    def text(self) -> str: ...

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def terms(self) -> Sequence[Replacement]: ...

    @property
    def stores(self) -> Sequence[tuple[str, float]]: ...


class Agreement:
    """What was declared stable of one segment.

    tokens: that a search can be told to begin with, of the stable text or of as much of it as they are known for
    """

    def __init__(self, decode: Decode, held: int) -> None:
        """held: words at the end of a pass that are never stable"""
        self._decode = decode
        self._held = held
        self._stable: list[str] = []
        self._last: list[str] = []
        self.tokens: tuple[int, ...] = ()

    @property
    def stable(self) -> str:
        return "".join(self._stable)

    def admits(self, text: str) -> bool:
        """Whether a text begins with what is stable."""
        return words(text)[: len(self._stable)] == self._stable

    def add(self, said: Said, *, grow: bool) -> str:
        """Compare a pass with the one before. → what it says after the stable text

        grow: whether more may become stable by it
        """
        found = words(said.text)
        agreed = common(self._last, found)
        settled = min(agreed, len(self._last) - self._held, len(found) - self._held)
        if grow and settled > len(self._stable) and self.admits(said.text):
            self._stable = found[:settled]
            self.tokens = opening(said, self.stable, self._decode) or self.tokens
        self._last = found
        return "".join(found[len(self._stable) :])

    def close(self, text: str) -> str:
        """The final text. It begins with what is stable, even where the last pass does not."""
        return "".join([*self._stable, *words(text)[len(self._stable) :]])


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words two texts begin with alike."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def opening(said: Said, stable: str, decode: Decode) -> tuple[int, ...]:
    """The tokens of a translation that say what it begins with; none where no whole number of them does."""
    written = without_terms(said, stable)
    for count in range(len(said.tokens), 0, -1):
        if decode(said.tokens[:count]).strip() == written:
            return tuple(said.tokens[:count])
    return ()


def without_terms(said: Said, stable: str) -> str | None:
    """What the model wrote for the beginning of a text; None if that ends within a term that was put in."""
    skipped = len(said.text) - len(said.text.lstrip())
    end, place, written = skipped + len(stable), skipped, ""
    for replacement in said.terms:
        if replacement.start >= end:
            break
        if replacement.end > end:
            return None
        written += said.text[place : replacement.start] + replacement.rendering
        place = replacement.end
    return written + said.text[place:end]
