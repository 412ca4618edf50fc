"""Text from elsewhere on its way to a terminal, which must not take it for orders."""

from __future__ import annotations

import re
import unicodedata

_KEPT = "\t\n"
# Overrides of the direction of writing show a name as another one.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def printable(text: str) -> str:
    """The same text with control characters, escape sequences, lone surrogates as what they are: ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _harmless(character) else ascii(character)[1:-1] for character in text)


def _harmless(character: str) -> bool:
    if character in _KEPT:
        return True
    return unicodedata.category(character) not in ("Cc", "Cs") and not _TURNING.match(character)
