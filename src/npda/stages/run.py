"""Run stages: every one that is not done yet, whatever becomes of the others.

By default a stage works in this very process: simple to follow, and safe wherever torch has already computed. With
``apart`` each has a forked process of its own: what it leaks goes with it, and a crash or the kernel's out-of-memory
killer ends that stage alone. A fork inherits what is imported but not the threads of OpenMP, so the caller imports
torch beforehand and computes nothing with it.

Nothing is lost by ``kill -9``: a stage counts as done only by its stage.json, and an unfinished directory is handed to
the same stage again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from npda.io.locks import Lock
from npda.stages.plan import LOG, Plan, Stage, Step, plan
from npda.stages.stage_process import Child, clear, perform, remove

_PAUSE = 0.1  # seconds between two looks at what others do


class AtWork(Protocol):
    """A stage that is at work apart from this process: ``Child``, or one on another machine."""

    step: Step
    resumed: bool

    def is_alive(self) -> bool: ...

    def result(self) -> tuple[str, float]:
        """Of a stage that has ended: what went wrong in a line, or nothing; seconds."""
        ...

    def end(self) -> None:
        """At once."""
        ...


Starting = Callable[[Step, Mapping[str, Path], bool, Lock], AtWork]  # step, needs, resumed, and the lock it gives back


@dataclass(frozen=True)
class Outcome:
    """What became of a stage: done now, found done, failed, or skipped because another one failed."""

    step: Step
    state: Literal["done", "found", "failed", "skipped"]
    seconds: float = 0.0
    reason: str = ""  # of a failure: what went wrong; of a skipped stage: whose failure
    resumed: bool = False  # went on with what an interrupted attempt had left

    @property
    def log(self) -> Path:
        return self.step.directory / LOG

    def sentence(self) -> str:
        match self.state:
            case "failed":
                return f"{self.step.name} failed: {self.reason} (log: {self.log})"
            case "skipped":
                return f"{self.step.name} skipped: {self.reason}"
            case "found":
                return f"{self.step.name} was done before"
            case "done":
                return f"{self.step.name} done in {self.seconds:.1f} s"


@dataclass(frozen=True)
class Report:
    """What became of every chosen stage, in the order of the plan."""

    outcomes: tuple[Outcome, ...]

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.state in ("failed", "skipped"))

    @property
    def exit_code(self) -> int:
        return 1 if self.failures else 0

    @property
    def directories(self) -> dict[str, Path]:
        """Where the results are, by name, of all stages that are done."""
        return {o.step.name: o.step.directory for o in self.outcomes if o.state in ("done", "found")}

    def record(self) -> list[dict[str, Any]]:
        """For scripts."""
        return [
            {
                "name": outcome.step.name,
                "state": outcome.state,
                "seconds": round(outcome.seconds, 2),
                "directory": str(outcome.step.directory),
                **({"reason": outcome.reason} if outcome.reason else {}),
                **({"log": str(outcome.log)} if outcome.state == "failed" else {}),
            }
            for outcome in self.outcomes
        ]


class Watcher:
    """Is told what happens; this one keeps quiet."""

    def opened(self, plan: Plan) -> None: ...

    def waits(self, names: Sequence[str]) -> None:
        """Nothing can go on until another run has finished one of these."""

    def started(self, step: Step) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...

    def refresh(self) -> None:
        """Called several times a second while stages run apart."""

    def closed(self) -> None: ...


def run(
    stages: Sequence[Stage],
    runs: str | Path,
    only: Sequence[str] = (),
    from_: str | None = None,
    keep_stale: bool = False,
    jobs: int = 1,
    keep_going: bool = True,
    apart: bool = False,
    watcher: Watcher = Watcher(),
    start: Starting = Child,
) -> Report:
    """Do whatever of the stages is not done yet; only, from_, keep_stale: as in `plan`.

    jobs: stages at once; more than one run apart
    keep_going: after a failure, do what does not depend on it
    apart: each stage in a process of its own, see above; start: begins such a stage
    """
    chosen = plan(stages, runs, only, from_, keep_stale)
    watcher.opened(chosen)
    try:
        # Those that depend on others first: interrupted here, no result is older than what it was made from.
        for step in reversed(chosen.steps):
            if step.again:
                clear(step, lambda step=step: watcher.waits([step.name]))
        with contextlib.closing(
            _Run(chosen, jobs, keep_going, start if apart or jobs > 1 else None, watcher)
        ) as current:
            return current.go()
    finally:
        watcher.closed()


class _Run:
    def __init__(self, chosen: Plan, jobs: int, keep_going: bool, start: Starting | None, watcher: Watcher) -> None:
        self._waiting = {step.name: step for step in chosen.steps}
        self._order = list(self._waiting)
        self._running: dict[str, AtWork] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._jobs, self._keep_going, self._start, self._watcher = jobs, keep_going, start, watcher

    def go(self) -> Report:
        told: list[str] = []
        while self._waiting or self._running:
            busy: list[str] = []
            if not (self._advance(busy) or self._collect()):
                if busy and not self._running and busy != told:
                    self._watcher.waits(busy)
                    told = busy
                self._watcher.refresh()
                time.sleep(_PAUSE)
        return Report(tuple(self._outcomes[name] for name in self._order))

    def close(self) -> None:
        """End what still runs: nothing it has finished is lost."""
        for child in self._running.values():
            child.end()

    def _advance(self, busy: list[str]) -> bool:
        """Settle or begin the first stage that can be; busy: gets the names of those another run is at."""
        for step in list(self._waiting.values()):
            if step.is_done():
                self._settle(Outcome(step, "found"))
                return True
            if reason := self._obstacle(step):
                self._settle(Outcome(step, "skipped", reason=reason))
                return True
            if any(need not in self._outcomes for need in step.stage.needs):
                continue
            if len(self._running) < self._jobs:
                if self._begin(step):
                    return True
                busy.append(step.name)
        return False

    def _obstacle(self, step: Step) -> str:
        """Whose failure keeps a stage from being done."""
        for need in step.stage.needs:
            outcome = self._outcomes.get(need)
            if outcome is not None and outcome.state == "failed":
                return f"{need} failed"
            if outcome is not None and outcome.state == "skipped":
                return outcome.reason
        failed = [name for name, outcome in self._outcomes.items() if outcome.state == "failed"]
        return f"{failed[0]} failed" if failed and not self._keep_going else ""

    def _begin(self, step: Step) -> bool:
        lock = Lock(step.lock)
        if not lock.acquire():
            return False
        if step.is_done():  # by another run, between the look at it and the lock
            lock.release()
            return True
        needs = {need: self._outcomes[need].step.directory for need in step.stage.needs}
        if step.is_stale():
            remove(step.directory)
        resumed = step.is_begun()
        del self._waiting[step.name]
        self._watcher.started(step)
        if self._start is not None:
            self._running[step.name] = self._start(step, needs, resumed, lock)
            return True
        start = time.monotonic()
        try:
            reason = perform(step, needs, resumed)
        finally:
            lock.release()
        self._finish(step, reason, time.monotonic() - start, resumed)
        return True

    def _collect(self) -> bool:
        """Take in one stage that has ended apart."""
        for name, child in self._running.items():
            if not child.is_alive():
                del self._running[name]
                self._finish(child.step, *child.result(), child.resumed)
                return True
        return False

    def _finish(self, step: Step, reason: str, seconds: float, resumed: bool) -> None:
        self._settle(Outcome(step, "failed" if reason else "done", seconds, reason, resumed))

    def _settle(self, outcome: Outcome) -> None:
        self._waiting.pop(outcome.step.name, None)
        self._outcomes[outcome.step.name] = outcome
        self._watcher.ended(outcome)
