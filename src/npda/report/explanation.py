"""Explanations as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from npda.explanation.records import Explanation
from npda.report.page import pieces

SHOWN = 8  # sentences behind a word; the JSON has all of them


def write_page(explanations: Iterable[Explanation], stream: TextIO, title: str = "Why these words?") -> int:
    """Write a section for every explanation as soon as it is there; return how many there were."""
    count = 0

    def counted() -> Iterator[Explanation]:
        nonlocal count
        for explanation in explanations:
            count += 1
            yield explanation

    stream.writelines(pieces("explanation.html", title=title, explanations=counted(), shown=SHOWN))
    return count
