"""Progress on standard error: bars on a terminal, plain lines elsewhere. Standard output stays clean for results."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

T = TypeVar("T")

EVERY = 30.0  # seconds between two lines about the same stage
SHORT = 5.0  # seconds after which the stage of a command that is mostly quick gets its first line

_SHOWN: ContextVar[Display | None] = ContextVar("shown", default=None)  # where all progress goes, see ``shown_on``


class Display(Protocol):
    """Where a stage reports how far it is: the part of ``rich.progress.Progress`` that npda uses."""

    def add_task(self, description: str, *, total: float | None, completed: int = 0, note: str) -> TaskID: ...

    def advance(self, task_id: TaskID, advance: float = 1) -> None: ...

    def update(
        self,
        task_id: TaskID,
        *,
        completed: float | None = None,
        advance: float | None = None,
        description: str | None = None,
        note: str = ...,
    ) -> None: ...


@contextmanager
def bar(enabled: bool = True, after: float = 0.0, transient: bool = False) -> Iterator[Display]:
    """A display with count, elapsed time and ETA; nothing at all when not enabled.

    after: seconds that a stage may take before its first line, where there is no terminal
    transient: remove the bar from the terminal when it is full
    """
    if (shown := _SHOWN.get()) is not None:
        yield shown
        return
    console = Console(stderr=True)
    if enabled and not console.is_terminal:
        with Lines(_standard_error(), after=after).watched() as lines:
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    # Results that are printed meanwhile go above the bar, but those that are piped to a file must not: rich would
    # send them to standard error.
    redirect = sys.stdout.isatty()
    with Progress(
        *columns, console=console, disable=not enabled, redirect_stdout=redirect, transient=transient
    ) as progress:
        yield progress


@contextmanager
def shown_on(display: Display) -> Iterator[None]:
    """All progress inside, of this thread, is told to a display of one's own, whether it is enabled or not."""
    token = _SHOWN.set(display)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def track(
    items: Iterable[T], description: str, total: int | None = None, enabled: bool = True, after: float = 0.0
) -> Iterator[T]:
    """Go through the items and show progress. total: how many, where ``len(items)`` cannot tell; after: as of bar"""
    if total is None:
        total = len(items) if hasattr(items, "__len__") else None  # pyright: ignore[reportArgumentType]
    with bar(enabled, after) as progress:
        task = progress.add_task(description, total=total, note="")
        for item in items:
            yield item
            progress.advance(task)


@contextmanager
def stage(description: str, enabled: bool = True, after: float = 0.0) -> Iterator[None]:
    """Show that a stage is at work which cannot tell how far it is, such as loading a model."""
    with bar(enabled, after, transient=True) as display:
        display.add_task(description, total=None, note="")
        yield


def duration(seconds: float) -> str:
    """45 s, 4 min 10 s, 1 h 05 min"""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


@dataclass
class _Task:
    """began, told: when the stage began and when its last line was written (None: not yet); first: done before"""

    description: str
    total: float | None
    completed: float
    note: str
    began: float
    first: float
    told: float | None = None


class Lines:
    """Progress as lines of text: one when a stage begins, one at least every 30 seconds, one when it ends.

    after: a stage that takes fewer seconds than this gets no line; every: seconds between lines; clock: in seconds
    """

    def __init__(
        self,
        say: Callable[[str], object],
        after: float = 0.0,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._after, self._every, self._clock = say, after, every, clock
        self._tasks: dict[TaskID, _Task] = {}
        self._ids = map(TaskID, itertools.count())
        self._lock = threading.RLock()  # the watching thread writes lines as well

    def add_task(self, description: str, *, total: float | None, completed: int = 0, note: str = "") -> TaskID:
        with self._lock:
            task_id = next(self._ids)
            self._tasks[task_id] = task = _Task(description, total, completed, note, self._clock(), completed)
            if not self._after:
                self._tell(task, f"{description} …")
        return task_id

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        self.update(task_id, advance=advance)

    def update(
        self,
        task_id: TaskID,
        *,
        completed: float | None = None,
        advance: float | None = None,
        description: str | None = None,
        note: str | None = None,
    ) -> None:
        with self._lock:
            task = self._tasks[task_id]
            task.completed = (task.completed if completed is None else completed) + (advance or 0)
            task.note = task.note if note is None else note
            if description is not None and description != task.description:
                task.description = description  # the next part of a stage deserves a line of its own
                if task.told is not None:
                    self._tell(task, self._state(task))
            self.tick()

    def tick(self) -> None:
        """Write a line for every stage that is due."""
        with self._lock:
            now = self._clock()
            for task in self._tasks.values():
                if now - task.began >= self._after if task.told is None else now - task.told >= self._every:
                    self._tell(task, self._state(task))

    def close(self, failed: bool = False) -> None:
        """Say of every stage that it has ended, and how long it took."""
        with self._lock:
            for task in self._tasks.values():
                if task.told is not None:
                    self._tell(task, self._end(task, failed))
            self._tasks.clear()

    @contextmanager
    def watched(self, step: float = 1.0) -> Iterator[Lines]:
        """Look every ``step`` seconds whether a line is due: a single item may take minutes. Close at the end."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(step):
                self.tick()

        # A daemon, so that an interrupted program does not wait for it.
        watcher = threading.Thread(target=watch, daemon=True, name="progress lines")
        watcher.start()
        failed = True
        try:
            yield self
            failed = False
        except GeneratorExit:  # whoever went through `track` has seen enough
            failed = False
            raise
        finally:
            over.set()
            watcher.join()
            self.close(failed)

    def _state(self, task: _Task) -> str:
        elapsed = self._clock() - task.began
        parts = [duration(elapsed)]
        if task.total is not None:
            share = f" ({task.completed / task.total:.0%})" if task.total else ""
            parts.insert(0, f"{task.completed:,.0f} of {task.total:,.0f}{share}")
            if task.completed > task.first:
                left = max(0.0, task.total - task.completed)
                parts.append(f"ETA {duration(elapsed / (task.completed - task.first) * left)}")
        elif task.completed:
            parts.insert(0, f"{task.completed:,.0f}")
        return f"{task.description}: {', '.join([*parts, *([task.note] if task.note else [])])}"

    def _end(self, task: _Task, failed: bool) -> str:
        took = duration(self._clock() - task.began)
        if failed:
            return f"{task.description}: stopped after {took}"
        done = f"done, {task.completed:,.0f} in {took}" if task.completed else f"done in {took}"
        return f"{task.description}: {done}{f', {task.note}' if task.note else ''}"

    def _tell(self, task: _Task, line: str) -> None:
        task.told = self._clock()
        self._say(line)


def _standard_error() -> Callable[[str], object]:
    stream = sys.stderr  # as it is now: a stage at work may have turned it into a log
    return lambda line: print(f"npda: {line}", file=stream, flush=True)
