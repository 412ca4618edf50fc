"""How far a job is, told by what it is made of, and the way to stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from rich.progress import TaskID


class Stopped(Exception):
    """The job is to end here: it was cancelled, or the server ends."""


class JobProgress:
    """A ``Display`` for a job's thread, read by others.

    A job has parts with weights, what they are likely to cost; within a part the last task that was added counts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._weights: Mapping[str, float] = {}
        self._part: str | None = None
        self._done: set[str] = set()
        self._total: float | None = None
        self._completed = 0.0
        self._task = 0
        self._description = self._note = ""
        self._furthest = 0.0
        self._stopped = threading.Event()
        self.cancelled = False

    def plan(self, weights: Mapping[str, float]) -> None:
        """The parts of the job, in their order."""
        self._weights = weights

    def begin(self, part: str) -> None:
        """Those before it are done."""
        self.check()
        names = list(self._weights)
        self._done = set(names[: names.index(part)])
        self._part, self._total, self._completed = part, None, 0.0
        self._description, self._note = part, ""

    def cancel(self) -> None:
        self.cancelled = True
        self.stop()

    def stop(self) -> None:
        self._stopped.set()

    def check(self) -> None:
        """Called between slices."""
        if self._stopped.is_set():
            raise Stopped

    # what is read

    @property
    def share(self) -> float:
        """0 … 1, and never less than before."""
        whole = sum(self._weights.values()) or 1.0
        done = sum(self._weights[name] for name in self._done)
        total = self._total
        within = min(1.0, self._completed / total) if total else 0.0
        part = self._weights.get(self._part or "", 0.0)
        self._furthest = max(self._furthest, min(1.0, (done + part * within) / whole))
        return self._furthest

    @property
    def step(self) -> str:
        if self.cancelled:
            return "cancelling"
        return f"{self._description}, {self._note}" if self._note else self._description

    @property
    def eta(self) -> float | None:
        """Seconds that are left, as soon as that can be told."""
        took, share = self._clock() - self._began, self.share
        return took / share * (1 - share) if took > 1 and share > 0.02 else None

    # as a Display

    def add_task(self, description: str, *, total: float | None, completed: int = 0, note: str = "") -> TaskID:
        self.check()
        self._task += 1
        self._description, self._total, self._completed, self._note = description, total, completed, note
        return TaskID(self._task)

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
        self.check()
        if task_id != self._task:
            return
        self._completed = (self._completed if completed is None else completed) + (advance or 0)
        if description is not None:  # settings of a search are for who tunes by hand
            self._description = f"{self._part}: trying settings" if "|" in description else description
        self._note = self._note if note is None else note
