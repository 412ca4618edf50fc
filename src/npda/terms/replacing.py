"""Writing one phrase in the place of another, so that the sentence stays in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from npda.terms.phrases import begins_sentence, upper_first

_ARTICLE = re.compile(r"(?<!\w)([Aa])(n?)(\s+)$")
_POSSESSIVE = re.compile(r"(['’])s\b")
_AN_LETTERS = frozenset("AEFHILMNORSX")  # whose names begin with a vowel
_SILENT_H = ("hour", "honest", "honour", "honor", "heir")
_LIKE_YOU = ("uni", "use", "usu", "uti", "eu", "ewe", "one", "once", "ubi")
_NOT_LIKE_YOU = ("unim", "unin", "unid")


@dataclass(frozen=True)
class Replacement:
    """A rendering that has given way to the wanted one, with articles and adjectives that changed with it.

    start, end: characters of the new text; heard: whether the ear heard the source term, None where it was not asked
    """

    source: str
    target: str
    rendering: str
    start: int
    end: int
    heard: bool | None = None


@dataclass(frozen=True)
class Placed:
    """A text with its replacements, from left to right."""

    text: str
    replacements: tuple[Replacement, ...] = ()


@dataclass(frozen=True)
class Change:
    """What is to be written instead of the characters from ``start`` to ``end`` of a text.

    left: articles and adjectives that come before the target
    """

    start: int
    end: int
    source: str
    target: str
    heard: bool | None = None
    left: tuple[str, ...] = ()


def replace(text: str, changes: Sequence[Change], language: str | None) -> Placed:
    """Carry out changes, which come from left to right and do not overlap. language: of the text, where known"""
    written, after, done = "", 0, []
    for change in changes:
        rendering = text[change.start : change.end]
        first, *rest = (*change.left, change.target)
        new = " ".join((_cased(first, rendering, begins_sentence(text, change.start)), *rest))
        written += text[after : change.start]
        if language == "en":
            written = with_article(written, new)
        start = len(written)
        written += new
        done.append(Replacement(change.source, change.target, rendering, start, len(written), change.heard))
        after = change.end
        if language == "en" and new.endswith("s") and (found := _POSSESSIVE.match(text, after)):
            written += found[1]  # youngsters' for child's
            after = found.end()
    return Placed(written + text[after:], tuple(done))


def _cased(target: str, rendering: str, first: bool) -> str:
    """With a capital where the sentence begins; names such as iPhone keep their letters."""
    plain = target[1:] == target[1:].lower()
    return upper_first(target) if first and plain and rendering[:1].isupper() else target


def with_article(before: str, word: str) -> str:
    """The text before an English word, where an indefinite article ends it with the one that fits."""
    found = _ARTICLE.search(before)
    if found is None:
        return before
    article = found[1] + ("n" if takes_an(word) else "")
    return before[: found.start()] + article + found[3]


def takes_an(word: str) -> bool:
    """Whether an English word begins with a vowel when it is spoken, as far as its letters tell."""
    first = re.split(r"[\s-]", word, maxsplit=1)[0]
    if first.isupper() and (1 < len(first) < 4 or not re.search("[AEIOU]", first[1:])):
        return first[0] in _AN_LETTERS  # read letter by letter
    lower = word.lower()
    if lower.startswith(_LIKE_YOU) and not lower.startswith(_NOT_LIKE_YOU):
        return False
    return lower.startswith(("a", "e", "i", "o", "u", "8", "11", "18", *_SILENT_H))
