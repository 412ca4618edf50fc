"""Texts as they are compared: without case and punctuation, as words; and whether one is caught in a loop."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

# Scripts that put no space between words: each of their signs counts as a word.
_SIGN = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_MARKS = re.compile(r"([^\w\s]|_)\1{7,}")
_SYLLABLES = re.compile(r"(\w{1,10}?)\1{3,}")
_LETTERS = 12  # that such syllables fill, or they are no loop
_FEWEST = 4  # words that stand elsewhere already, in the shortest loop


def normalize(text: str) -> str:
    """Lower case without punctuation: each mark becomes a space, an apostrophe inside a word stays."""
    text = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    text = re.sub(r"(?<!\w)'|'(?!\w)", " ", text)
    kept = (" " if unicodedata.category(c).startswith("P") and c != "'" else c for c in text)
    return " ".join("".join(kept).split())


def words(text: str) -> list[str]:
    """Words without case and punctuation; signs of scripts without spaces one by one."""
    return _SIGN.sub(r" \1 ", normalize(text)).split()


def loops(text: str) -> bool:
    """Whether a text is caught in a loop.

    That is a word five times in a row, two words four times, a longer phrase three times; or, inside a word, a mark
    eight times ("________"), or syllables four times over twelve letters.
    """
    syllables = _SYLLABLES.finditer(normalize(text))
    if _MARKS.search(text) or any(len(found[0]) >= _LETTERS for found in syllables):
        return True
    tokens = [token for part in text.split() for token in (words(part) or [part])]
    if len(tokens) - len(set(tokens)) < _FEWEST:
        return False  # nearly every sentence
    for period in range(1, len(tokens) // 3 + 1):
        same = (a == b for a, b in zip(tokens, tokens[period:], strict=False))
        longest = max((sum(run) for equal, run in groupby(same) if equal), default=0)
        if longest // period + 1 >= max(3, 6 - period):
            return True
    return False
