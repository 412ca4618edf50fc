"""What a search of many parts takes: a simulation of calls, processors and the network, from measured figures.

    python -m benchmarks.cluster_search --figures figures.json
    python -m benchmarks.cluster_model figures.json

A step sends its queries to every part, one message after the other; a processor takes them in their order, one part at
a time; the answers come back, and are merged when the last is there. Measured are: how long a part of a size takes,
how long a call takes that computes nothing, and merging. Nothing is fitted to the measured steps of 2 and 4 parts; the
simulation has to come within 20 % of them before it says anything about more parts, each then with a processor of its
own and a network between them.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

WITHIN = 0.20
STEPS = 400  # that are simulated
JITTER = 0.05  # standard deviation of the logarithm of every time
TEN_GIGABIT = 1.25e6  # bytes a millisecond
ROUND_TRIP = 0.1  # ms between two machines of one rack
DIM = 256
KEYS_A_PART = 20_000_000


@dataclass(frozen=True)
class Times:
    """Milliseconds. call: of a message there and back, of which ``send`` keeps the asking process busy; serve: of a
    part; merge: of all answers; wire: of the bytes of one part on the network, and of the distance
    """

    call: float
    send: float
    serve: float
    merge: float
    wire: float = 0.0


def simulated(times: Times, parts: int, processors: int, random: np.random.Generator) -> float:
    """Milliseconds of one step, as events: messages arrive, processors get free, answers arrive."""

    def drawn(mean: float) -> float:
        return mean * float(np.exp(random.normal(0, JITTER)))

    free = [0.0] * min(processors, parts)  # when each processor gets free
    heapq.heapify(free)
    arrivals, sent = [], 0.0
    for _ in range(parts):
        sent += drawn(times.send)
        arrivals.append(sent + drawn((times.call - times.send) / 2) + times.wire / 2)
    answers = []
    for arrival in sorted(arrivals):
        begun = max(arrival, heapq.heappop(free))
        done = begun + drawn(times.serve)
        heapq.heappush(free, done)
        answers.append(done + drawn((times.call - times.send) / 2) + times.wire / 2)
    return max(answers) + drawn(times.merge)


def step(times: Times, parts: int, processors: int) -> float:
    """The median of many."""
    random = np.random.default_rng(0)
    return float(np.median([simulated(times, parts, processors, random) for _ in range(STEPS)]))


def times_of(figures: Mapping[str, Any], parts: int, queries: int) -> Times:
    serve, merge = figures["single"][str(parts)][str(queries)]
    call = figures["asking"][str(queries)]
    return Times(call, call / 4, serve, merge)


def check(figures: Mapping[str, Any], processors: int) -> bool:
    """Print the measured and the simulated steps side by side. → whether all are within 20 %"""
    good = True
    for parts, measured in figures["measured"].items():
        for queries, value in measured.items():
            found = step(times_of(figures, int(parts), int(queries)), int(parts), processors)
            off = found / value - 1
            good &= abs(off) <= WITHIN
            verdict = "PASS" if abs(off) <= WITHIN else "FAIL"
            shown = f"measured {value:7.2f} ms, simulated {found:7.2f} ms, {off:+.0%}"
            print(f"{parts} parts, {queries:>3} queries: {shown}  {verdict}")
    return good


def extrapolate(figures: Mapping[str, Any]) -> None:
    """Steps of stores too large to measure, each part with a processor of its own, ten gigabits between them.

    How long a part takes grows with its size as it did between the measured ones.
    """
    sizes = sorted(map(int, figures["single"]))
    print("keys            parts  queries   ms a step   MB/s at 30 steps a second")
    for keys in (75_000_000, 1_000_000_000, 100_000_000_000):
        parts = -(-keys // KEYS_A_PART)
        for queries in (5, 40, 320):
            serves = [figures["single"][str(size)][str(queries)][0] for size in sizes]
            held = [figures["keys"] / size for size in sizes]
            power = np.polyfit(np.log(held), np.log(serves), 1)[0] if len(sizes) > 1 else 0.5
            serve = serves[0] * (KEYS_A_PART / held[0]) ** max(0.0, float(power))
            merge = figures["single"][str(sizes[0])][str(queries)][1] * parts / sizes[0]
            call = figures["asking"][str(queries)]
            bytes_ = queries * (4 * DIM + 16 * figures["k"] * 5)
            wire = ROUND_TRIP + parts * bytes_ / TEN_GIGABIT  # all of it goes through one connection
            found = step(Times(call, call / 4, serve, merge, wire), parts, parts)
            print(f"{keys:>15,} {parts:>5} {queries:>8} {found:>11.1f} {30 * parts * bytes_ / 1e6:>12.0f}")


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path)
    parser.add_argument("--processors", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    figures = json.loads(options.figures.read_text(encoding="utf-8"))
    good = check(figures, options.processors)
    if good:
        extrapolate(figures)
    else:
        print("The simulation does not reproduce what was measured, and says nothing about more parts.")
    return good


if __name__ == "__main__":
    sys.exit(not main())
