"""What may come of a fault, and the table of how often it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """The last four must not happen."""

    REFUSED = "refused"  # with a sentence
    WORKED = "worked"
    SILENT = "silently wrong"
    TRACEBACK = "traceback"  # or an end without a sentence
    HANG = "hang"
    LOST = "lost"  # something that was there before, or should have come out, is not there; or litter is


NEVER = (Verdict.SILENT, Verdict.TRACEBACK, Verdict.HANG, Verdict.LOST)


@dataclass(frozen=True)
class Found:
    verdict: Verdict
    said: str = ""  # by the program, or about it

    def __bool__(self) -> bool:
        """Whether all is well."""
        return self.verdict not in NEVER


WORKED = Found(Verdict.WORKED)
REFUSED = Found(Verdict.REFUSED)


@dataclass(frozen=True)
class Case:
    """One fault to try. run: tries it, and may be called once"""

    name: str
    run: Callable[[], Found]


Cases = Iterator[Case]


class Skipped(Exception):
    """A row that cannot be tried here, and why."""


@dataclass
class Row:
    """A line of the table."""

    name: str
    counts: Counter[Verdict] = field(default_factory=Counter)
    faults: list[tuple[str, Found]] = field(default_factory=list)
    skipped: str = ""

    def add(self, case: str, found: Found) -> None:
        self.counts[found.verdict] += 1
        if not found:
            self.faults.append((case, found))

    @property
    def tried(self) -> int:
        return self.counts.total()


def table(rows: list[Row]) -> str:
    """All rows, their sum, and every fault that must not be."""
    total = Row("all")
    for row in rows:
        total.counts += row.counts
    lines = [f"{'':14}{'tried':>8}" + "".join(f"{verdict:>{len(verdict) + 3}}" for verdict in Verdict)]
    for row in [*rows, total]:
        if row.skipped:
            lines.append(f"{row.name:14}   skipped: {row.skipped}")
            continue
        counts = "".join(f"{row.counts[verdict]:>{len(verdict) + 3},}" for verdict in Verdict)
        lines.append(f"{row.name:14}{row.tried:>8,}{counts}")
    for row in rows:
        lines += [f"\n{row.name}: {name}\n  {found.verdict}: {found.said}" for name, found in row.faults]
    return "\n".join(lines)
