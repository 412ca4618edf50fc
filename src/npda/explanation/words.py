"""Tokens as people see them: pieces, words, and the places of tokens in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cached_property, lru_cache

from npda.models.backbone import Tokens

WORD_BEGIN = "▁"
END_PIECE = "</s>"


class Pieces:
    """The pieces behind token ids, found out from what a vocabulary decodes, so that any vocabulary will do."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.piece = lru_cache(maxsize=None)(self._piece)
        self.spans = lru_cache(maxsize=4096)(self._spans)

    def _piece(self, token: int) -> str:
        """As SentencePiece writes it: ▁ begins a word; a token without text is shown by its id."""
        if token == self._tokens.eos:
            return END_PIECE
        text = self._tokens.decode([token])
        if text:
            # Twice the same piece has a space in between only if the piece brings one.
            return text if self._tokens.decode([token, token]) == text + text else WORD_BEGIN + text
        inner = self._inner
        brings_space = inner is not None and " " in self._tokens.decode([inner, token, inner])
        return WORD_BEGIN if brings_space else f"<{token}>"

    @cached_property
    def _inner(self) -> int | None:
        """Some token with a text and without a space."""
        decode = self._tokens.decode
        return next((t for t in range(len(self._tokens)) if (x := decode([t])) and decode([t, t]) == x + x), None)

    def words(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """The words as ranges [first, last] of tokens; the end symbol is one of its own."""
        ranges: list[tuple[int, int]] = []
        for place, token in enumerate(tokens):
            if place == 0 or token == self._tokens.eos or self.piece(token).startswith(WORD_BEGIN):
                ranges.append((place, place))
            else:
                ranges[-1] = (ranges[-1][0], place)
        return ranges

    def is_end(self, token: int) -> bool:
        return token == self._tokens.eos

    def text(self, tokens: Sequence[int]) -> str:
        return self._tokens.decode(tokens)

    def _spans(self, sentence: str) -> tuple[tuple[int, int, int], ...]:
        """Token, first character, and the one after the last, of all that a sentence is encoded to and of its end."""
        ids = self._tokens.encode(sentence)
        decoded = self._tokens.decode(ids)
        ends = [0]
        for place in range(len(ids)):
            beginning = self._tokens.decode(ids[: place + 1])
            ends.append(max(ends[-1], _common(beginning, decoded)))
        original = _places(decoded, sentence)
        spans = []
        for token, start, end in zip(ids, ends, ends[1:], strict=False):
            # A word's space is not part of it; a lone ▁ stands where its word begins.
            while decoded[start : start + 1].isspace():
                start += 1
            first = original[start]
            spans.append((token, first, original[end - 1] + 1 if end > start else first))
        return (*spans, (self._tokens.eos, len(sentence), len(sentence)))


def _common(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _places(decoded: str, sentence: str) -> list[int]:
    """For every character of ``decoded``, and for its end, where it stands in the sentence it came from.

    They differ where the vocabulary normalises, and where it has no piece for a character.
    """
    if decoded == sentence:
        return list(range(len(sentence) + 1))
    places = [0] * len(decoded) + [len(sentence)]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, decoded, sentence, autojunk=False).get_opcodes():
        for i in range(i1, i2):
            places[i] = j1 + i - i1 if tag == "equal" else min(j1 + i - i1, max(j1, j2 - 1))
    return places


def kept_words(base: Sequence[str], adapted: Sequence[str]) -> tuple[list[bool], list[bool]]:
    """Which words two translations have in common, in their order."""
    in_base, in_adapted = [False] * len(base), [False] * len(adapted)
    for block in SequenceMatcher(None, base, adapted, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            in_base[block.a + offset] = in_adapted[block.b + offset] = True
    return in_base, in_adapted
