"""Text from elsewhere on its way to a terminal, which must not take it for orders."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_KEPT = "\t\n"
# Overrides of the direction of writing show a name as another one.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def printable(text: str) -> str:
    """The same text with control characters, escape sequences, lone surrogates as what they are: ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _harmless(character) else ascii(character)[1:-1] for character in text)


def open_console(**options: Any) -> Console:
    """Where verbs show tables and text: nothing in them is markup, or gives the terminal orders.

    options: of rich's ``Console``
    """
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
    from rich.measure import Measurement
    from rich.segment import Segment

    class Shown:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for segment in console.render(self.inner, options):
                plain = segment.control or segment.text.isprintable()
                yield segment if plain else Segment(printable(segment.text), segment.style)

        def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
            return Measurement.get(console, options, self.inner)

    class Hook(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [Shown(each) for each in renderables]

    made = Console(markup=False, emoji=False, **options)
    made.push_render_hook(Hook())
    return made


def _harmless(character: str) -> bool:
    if character in _KEPT:
        return True
    return unicodedata.category(character) not in ("Cc", "Cs") and not _TURNING.match(character)
