"""Words in a text, and where phrases of a list occur in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

# Quotation marks, brackets, dashes and apostrophes stand between words; a point or a comma does so unless it is inside
# a number or an abbreviation, and a hyphen never does.
_BETWEEN = r"\s.,;:!?…\"“”„‟»«‹›()\[\]{}¿¡'’‘–—"
_WORD = re.compile(rf"[^{_BETWEEN}]+(?:[.,:](?=[^{_BETWEEN}])[^{_BETWEEN}]+)*")
_SENTENCE_END = re.compile(r"(?:^|[.!?…:])[\s\"“”„‟»«‹›()\[\]¿¡'’‘–—-]*$")

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Span:
    """A word, and the characters it takes up in its text."""

    word: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Match(Generic[T]):
    """A phrase of a list that occurs in a text. start, end: its characters there; first, last: its words"""

    start: int
    end: int
    first: int
    last: int
    value: T


def spans(text: str) -> list[Span]:
    """The words of a text, in order."""
    return [Span(found[0], found.start(), found.end()) for found in _WORD.finditer(text)]


def words(text: str) -> list[str]:
    return _WORD.findall(text)


def begins_sentence(text: str, place: int) -> bool:
    """Whether a word at this place would be the first of a sentence."""
    return _SENTENCE_END.search(text, 0, place) is not None


def lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def normal(text: str) -> str:
    """One space between words, one kind of apostrophe."""
    return " ".join(text.split()).replace("’", "'")


class Phrases(Generic[T]):
    """Finds the phrases of a list, however long the list is: a text takes time by its words.

    smart: a phrase in small letters is found in any case, and in a text without capitals every phrase is; otherwise
    only the first letter of a sentence may be a capital that the phrase does not have
    """

    def __init__(self, phrases: Iterable[tuple[str, T]], smart: bool = False) -> None:
        self._smart = smart
        self._values: dict[str, T] = {}
        self._folded: dict[str, T] = {}
        lengths: dict[str, set[int]] = {}  # in words, by first word
        for phrase, value in phrases:
            phrase = normal(phrase)
            found = spans(phrase)
            if not found:
                continue
            # What surrounds the words of a phrase, as in "C++!", takes no part.
            phrase = phrase[found[0].start : found[-1].end]
            folded = phrase.casefold()
            self._values.setdefault(phrase, value)
            self._folded.setdefault(folded, value)
            lengths.setdefault(found[0].word.casefold(), set()).add(len(found))
        self._lengths = {word: sorted(each, reverse=True) for word, each in lengths.items()}

    def find(self, text: str) -> list[Match[T]]:
        """Where phrases of the list stand: from left to right, the longest first, none inside another."""
        found: list[Match[T]] = []
        if not self._values:
            return found
        places, first = spans(text), 0
        no_capitals = text.lower() == text
        while first < len(places):
            match = self._at(text, places, first, no_capitals)
            if match is not None:
                found.append(match)
            first = match.last + 1 if match is not None else first + 1
        return found

    def _at(self, text: str, places: list[Span], first: int, no_capitals: bool) -> Match[T] | None:
        start = places[first].start
        for length in self._lengths.get(places[first].word.casefold(), ()):
            last = first + length - 1
            if last < len(places):
                end = places[last].end
                value = self._value(text, start, end, no_capitals)
                if value is not None:
                    return Match(start, end, first, last, value)
        return None

    def _value(self, text: str, start: int, end: int, no_capitals: bool) -> T | None:
        phrase = normal(text[start:end])
        if phrase in self._values:
            return self._values[phrase]
        if self._smart:
            folded = phrase.casefold()
            # In small letters it is in the list only if the list has it so.
            return self._folded.get(folded) if no_capitals else self._values.get(folded)
        return self._values.get(lower_first(phrase)) if begins_sentence(text, start) else None
