"""Text as people can read it under a picture: two lines at a time, not for too long."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import TextWrapper
from unicodedata import east_asian_width

LINE = 42  # characters, as broadcasters have it; half as many of Chinese or Japanese
LINES = 2
LONGEST = 7.0  # seconds

# A phrase ends with its punctuation, what closes after it, as in »…« and (…), and the space that follows.
_PHRASE = re.compile(r"\S.*?(?:[.!?…;:,–—]+[\"'»«”’“)\]]*(?: |$)|[。！？；：，、]+[」』）”]*|$)")


@dataclass(frozen=True)
class Cue:
    """Lines shown from `start` to `end`, in seconds."""

    start: float
    end: float
    text: str


def cues(start: float, end: float, text: str) -> Iterator[Cue]:
    """What is said from `start` to `end`, cut at punctuation where it is too much for one cue.

    Nobody has told when each word is said, so every cue gets time by its number of characters. Without text there is
    no cue.
    """
    # White space of other kinds, such as the narrow one before « ! », does not break a line.
    words = re.split("[ \t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+", text)
    text = " ".join(word for word in words if word)
    if not text:
        return
    parts = _parts(text, LONGEST / max(end - start, LONGEST))
    total, done = sum(map(len, parts)), 0
    for part in parts:
        first, done = done, done + len(part)
        yield Cue(start + (end - start) * first / total, start + (end - start) * done / total, _lines(part))


def _parts(text: str, share: float) -> list[str]:
    """Phrases put together as long as they fit two lines and are no more than this share of the text."""
    room = share * len(text)
    parts: list[str] = []
    for phrase in _PHRASE.findall(text):
        for piece in _pieces(phrase):
            if parts and len(parts[-1] + piece.rstrip()) <= room and _fits(parts[-1] + piece):
                parts[-1] += piece
            else:
                parts.append(piece)
    return parts


def _pieces(phrase: str) -> list[str]:
    """A phrase that does not fit is halved between words until it does; where there is no space, anywhere."""
    if _fits(phrase):
        return [phrase]
    places = [match.end() for match in re.finditer(" ", phrase.rstrip())] or [len(phrase) // 2]
    middle = min(places, key=lambda place: abs(place - len(phrase) / 2))
    return _pieces(phrase[:middle]) + _pieces(phrase[middle:])


def _fits(text: str) -> bool:
    return len(_wrapped(text, _width(text))) <= LINES


def _lines(text: str) -> str:
    """One line, or two of like length: that looks better than a long one and a short one."""
    text, width = text.strip(), _width(text)
    if len(text) <= width:
        return text
    widths = range(len(text) // LINES, width)
    return "\n".join(_wrapped(text, next((w for w in widths if len(_wrapped(text, w)) <= LINES), width)))


def _width(text: str) -> int:
    return LINE // 2 if any(east_asian_width(character) in "WF" for character in text) else LINE


def _wrapped(text: str, width: int) -> list[str]:
    return TextWrapper(width, break_on_hyphens=False).wrap(text)
