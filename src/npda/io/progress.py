"""Progress bars on standard error, so that standard output stays clean for results."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")


@contextmanager
def bar(enabled: bool = True) -> Iterator[Progress]:
    """A rich progress display with count, elapsed time and ETA; nothing at all when not enabled."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = Console(stderr=True)
    # Written to a file, a bar would only leave its last frame between the messages. Results that are printed
    # meanwhile go above it, but those that are piped to a file must not: rich would send them to standard error.
    shown = enabled and console.is_terminal
    with Progress(*columns, console=console, disable=not shown, redirect_stdout=sys.stdout.isatty()) as progress:
        yield progress


def track(items: Iterable[T], description: str, total: int | None = None, enabled: bool = True) -> Iterator[T]:
    """Go through the items with a bar. total: how many, where ``len(items)`` cannot tell"""
    if total is None:
        total = len(items) if hasattr(items, "__len__") else None  # pyright: ignore[reportArgumentType]
    with bar(enabled) as progress:
        task = progress.add_task(description, total=total, note="")
        for item in items:
            yield item
            progress.advance(task)
