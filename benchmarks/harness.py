"""How every benchmark measures and what it prints.

The ways are run in turn, again and again (A B A B …), so that whatever else the machine does falls on all of them.
Ratios are of the processor's time, which other work disturbs least; the time that passed stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch


@dataclass(frozen=True)
class Timing:
    """Medians of one way, in seconds: of the processor and of the clock."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Line:
    """One line of the table.

    value: a ratio, or what else is measured; bar: what it has to reach, None where it is only reported;
    most: whether the bar is the most the value may be, not the least; note: the times behind it
    """

    name: str
    value: float
    bar: float | None = None
    most: bool = False
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.bar is None or (self.value <= self.bar if self.most else self.value >= self.bar)

    @property
    def verdict(self) -> str:
        return "" if self.bar is None else "PASS" if self.passed else "FAIL"


@dataclass(frozen=True)
class Skipped:
    """A line that cannot be measured here, and why."""

    name: str
    reason: str


Result = Line | Skipped


def interleaved(ways: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Median times of every way; one more round comes first and warms up."""
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, way in ways.items():
            started, worked = time.perf_counter(), time.process_time()
            way()
            if turn:
                cpu[name].append(time.process_time() - worked)
                wall[name].append(time.perf_counter() - started)
    return {name: Timing(statistics.median(cpu[name]), statistics.median(wall[name])) for name in ways}


class Searcher(Protocol):
    def search(self, queries: np.ndarray, k: int) -> object: ...


def asking(searcher: Searcher, queries: np.ndarray, size: int, k: int) -> Callable[[], None]:
    """A way that searches for all queries, ``size`` of them in each call. queries: [n, dim]"""

    def run() -> None:
        for start in range(0, len(queries), size):
            searcher.search(queries[start : start + size], k)

    return run


def ratio(times: Mapping[str, Timing], over: str, under: str) -> tuple[float, str]:
    """How many times longer ``over`` takes than ``under``, and the times themselves as a note."""
    a, b = times[over], times[under]
    note = f"{over} {a.cpu:.3f} s, {under} {b.cpu:.3f} s, by the clock {a.wall / b.wall:.2f}"
    return a.cpu / b.cpu, note


def arguments(description: str | None, repeats: int = 5) -> argparse.ArgumentParser:
    """The options all benchmarks share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=repeats, help="rounds that are measured")
    parser.add_argument("--threads", type=int, default=1, help="of every way")
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser


def report(title: str, measure: Callable[[], Iterable[Result]], json_path: Path | None = None) -> bool:
    """Measure, print the table, keep the figures. → whether all bars are reached"""
    load = os.getloadavg()[0]
    results = []
    print(f"{title}: {torch.get_num_threads()} thread(s), load {load:.1f}", flush=True)
    for result in measure():
        results.append(result)
        print(row(result), flush=True)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        loads = {"before": load, "after": os.getloadavg()[0]}
        lines = [_figures(result) for result in results]
        figures = {"title": title, "threads": torch.get_num_threads(), "load": loads, "lines": lines}
        json_path.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return passed(results)


def passed(results: Iterable[Result]) -> bool:
    """Whether all bars are reached, as far as they could be measured."""
    return all(isinstance(result, Skipped) or result.passed for result in results)


def read_figures(json_path: Path) -> list[Result]:
    """What ``report`` kept; nothing where it did not come so far."""
    if not json_path.is_file():
        return []
    lines = json.loads(json_path.read_text(encoding="utf-8"))["lines"]
    found = [{name: value for name, value in line.items() if name != "verdict"} for line in lines]
    return [Skipped(**line) if "reason" in line else Line(**line) for line in found]


def row(result: Result) -> str:
    """One line of the table as it is printed."""
    if isinstance(result, Skipped):
        return f"  {result.name:56}         SKIPPED: {result.reason}"
    sign = "≤" if result.most else "≥"
    bar = f"{sign} {result.bar:g}" if result.bar is not None else ""
    return f"  {result.name:56} {result.value:7.2f} {bar:6} {result.verdict:4}  {result.note}".rstrip()


def _figures(result: Result) -> dict[str, object]:
    return {**asdict(result), "verdict": "SKIPPED" if isinstance(result, Skipped) else result.verdict}


def sizes(text: str) -> Sequence[int]:
    """``1,8,16`` of the command line."""
    return [int(size) for size in text.split(",")]
