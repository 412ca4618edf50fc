"""The display of a run: which stage is at work, what has become of the others, how long it will take."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from npda.io.progress import EVERY, duration
from npda.stages.plan import LOG, Plan, Step
from npda.stages.run import Outcome, Watcher

_NEXT = 5  # stages shown before they begin
_PRIOR = 30.0  # seconds for which the estimates are taken at their word, lest a small stage decide alone
_COLOURS = {"done": "green", "found": "dim", "failed": "bold red", "skipped": "yellow"}


def run_display(quiet: bool = False, apart: bool = False) -> Watcher:
    """A live display on a terminal, a line per event elsewhere, nothing at all if quiet (as with --json).

    It writes to standard error. apart: whether the stages run in processes of their own
    """
    if quiet:
        return Watcher()
    console = Console(file=_standard_error(), highlight=False)
    return LiveDisplay(console, apart) if console.is_terminal else LineDisplay(console)


def _standard_error() -> TextIO:
    """Standard error as it is now: while a stage is at work, it leads to the stage's log."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")
    except (OSError, ValueError, AttributeError):
        return sys.stderr


def pace(finished: Iterable[tuple[float, float]]) -> float:
    """How much longer stages take than estimated. finished: estimated and real seconds of each"""
    costed = [(cost, seconds) for cost, seconds in finished if cost > 0]
    return (_PRIOR + sum(seconds for _, seconds in costed)) / (_PRIOR + sum(cost for cost, _ in costed))


def plan_table(plan: Plan) -> Table:
    """The plan for the terminal, with what it will cost."""
    table = Table("stage", "state", "estimate", title=f"about {duration(plan.cost)} to do")
    for step in plan.steps:
        style = "dim" if step.state == "done" else ""
        table.add_row(Text(step.name), _shown(step), duration(step.stage.cost), style=style)
    for stage in plan.skipped:
        table.add_row(Text(stage.name), "skipped", duration(stage.cost), style="dim")
    return table


def _shown(step: Step) -> str:
    if step.state != "stale":
        return step.state
    return f"stale: {'done' if step.mark() else 'begun'} by other code"


class LineDisplay(Watcher):
    """One line when a stage begins, one when it ends, and one every 30 seconds about those at work."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = time.monotonic()
        self._steps: dict[str, Step] = {}
        self._began: dict[str, float] = {}
        self._outcomes: dict[str, Outcome] = {}

    def opened(self, plan: Plan) -> None:
        self._steps = {step.name: step for step in plan.steps}
        done = sum(step.state == "done" for step in plan.steps)
        stale = sum(step.state == "stale" for step in plan.steps)
        again = f", {stale} by other code and therefore done again" if stale else ""
        self._say(f"{len(plan.steps)} stages, {done} done before{again}; about {duration(self.remaining())}")

    def waits(self, names: Sequence[str]) -> None:
        self._say(f"another run is at {', '.join(names)}: waiting for it", "yellow")

    def started(self, step: Step) -> None:
        self._began[step.name] = time.monotonic()
        self._say(f"{self._place(step)}: begun, about {duration(self._estimate(step))}")

    def ended(self, outcome: Outcome) -> None:
        self._began.pop(outcome.step.name, None)
        self._outcomes[outcome.step.name] = outcome
        place = self._place(outcome.step)
        match outcome.state:
            case "done":
                left = duration(self.remaining())
                self._say(f"{place}: done in {duration(outcome.seconds)}; about {left} left", "green")
            case "failed":
                told = f"failed after {duration(outcome.seconds)}: {outcome.reason} (log: {outcome.log})"
                self._say(f"{place}: {told}", "bold red")
            case "skipped":
                self._say(f"{place}: skipped, {outcome.reason}", "yellow")
            case "found" if self._steps[outcome.step.name].state != "done":
                self._say(f"{place}: done by another run", "green")

    def refresh(self) -> None:
        if time.monotonic() - self._said < EVERY:
            return
        for name, began in list(self._began.items()):
            step = self._steps[name]
            times = f"{duration(time.monotonic() - began)} of about {duration(self._estimate(step))}"
            note = last_line(step.directory / LOG)
            self._say(f"{self._place(step)}: {times}{f'; {note}' if note else ''}")
        self._said = time.monotonic()

    def closed(self) -> None:
        counts = {state: sum(o.state == state for o in self._outcomes.values()) for state in _COLOURS}
        self._say(", ".join(f"{count} {state}" for state, count in counts.items() if count) or "nothing done")

    def remaining(self) -> float:
        """Estimated seconds to the end, by what the finished stages took.

        Stages at once do not shorten it: the estimates are for all cores.
        """
        open_steps = [s for s in self._steps.values() if s.name not in self._outcomes and s.state != "done"]
        now = time.monotonic()
        return sum(max(0.0, self._estimate(s) - (now - self._began.get(s.name, now))) for s in open_steps)

    def _estimate(self, step: Step) -> float:
        before = [(s.stage.cost, s.took) for s in self._steps.values() if s.took is not None]
        ended = list(self._outcomes.values())  # a copy: the display is drawn in a thread of its own
        now = [(o.step.stage.cost, o.seconds) for o in ended if o.state == "done" and not o.resumed]
        return step.stage.cost * pace(before + now)

    def _place(self, step: Step) -> str:
        return f"[{list(self._steps).index(step.name) + 1}/{len(self._steps)}] {step.name}"

    def _say(self, line: str, style: str = "") -> None:
        self._said = time.monotonic()
        self._console.print(Text(line, style), soft_wrap=True)


class LiveDisplay(LineDisplay):
    """The same lines, scrolling away above a display of what is at work and what comes next."""

    def __init__(self, console: Console, apart: bool = False) -> None:
        super().__init__(console)
        # A stage in this process leaves nobody else to refresh the display; a fork must not meet another thread.
        self._live = Live(
            console=console,
            get_renderable=self.render,
            auto_refresh=not apart,
            refresh_per_second=2,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._refreshed = 0.0

    def opened(self, plan: Plan) -> None:
        super().opened(plan)
        self._live.start()

    def started(self, step: Step) -> None:
        super().started(step)
        self._live.refresh()

    def ended(self, outcome: Outcome) -> None:
        super().ended(outcome)
        self._live.refresh()

    def refresh(self) -> None:
        if time.monotonic() - self._refreshed > 0.5:
            self._live.refresh()
            self._refreshed = time.monotonic()

    def closed(self) -> None:
        self._live.stop()
        super().closed()

    def render(self) -> RenderableType:
        """What is at work with the last line of its log, what comes next, how long it will take."""
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, began in list(self._began.items()):
            step = self._steps[name]
            times = f"{duration(now - began)} of about {duration(self._estimate(step))}"
            note = Text(last_line(step.directory / LOG), "dim", no_wrap=True, overflow="ellipsis")
            table.add_row(Text("▶", "cyan"), Text(name, "cyan"), times, note)
        waiting = [s for s in self._steps.values() if s.name not in self._outcomes and s.name not in self._began]
        for step in waiting[:_NEXT]:
            table.add_row("·", Text(step.name), f"about {duration(self._estimate(step))}", "")
        more = f", {len(waiting) - _NEXT} more after these" if len(waiting) > _NEXT else ""
        settled = f"{len(self._outcomes)} of {len(self._steps)} stages settled{more}"
        return Group(table, Text(f"{settled}; ETA {duration(self.remaining())}", "bold"))


def last_line(path: Path) -> str:
    """The last line of a log, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
