"""The log of a run: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.state import PartialState
from torch import Tensor

from npda.io.files import write_lines
from npda.training.loop.processes import add_up


class TrainingLog:
    """log.jsonl"""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, kind: str, **figures: Any) -> None:
        line = json.dumps({"kind": kind, **figures})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def read(self) -> list[dict[str, Any]]:
        """Every whole line; the last may have been cut off in the writing."""
        if not self.path.is_file():
            return []
        entries = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entries.append(json.loads(line))
            except ValueError:
                break
        return entries

    def cut(self, update: int) -> None:
        """Forget what came after an update, since it is done again, and an end that no longer is one."""
        entries = [e for e in self.read() if e["update"] <= update and e["kind"] != "end"] if update else []
        write_lines(self.path, [json.dumps(entry) for entry in entries])


class Window:
    """What happened since the last line of the log."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.latest = float("nan")  # the loss of the last line
        self._terms = tuple(terms)
        self._clear()

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Take in a micro-batch of this process."""
        for name, value in sums.items():
            self._sums[name].append(value.detach())

    def count(self, counts: Mapping[str, float], norm: float, frames: int, seconds: float) -> None:
        """Take in an update of all processes."""
        for name, count in counts.items():
            self._counts[name] += count
        self._norms.append(norm)
        self._frames += frames
        self._seconds += seconds

    def close(self, processes: PartialState, weights: Mapping[str, float]) -> dict[str, float]:
        """The figures of the window over all processes; the window is empty then."""
        local = [float(sum(values)) for values in self._sums.values()]
        sums = add_up(torch.tensor(local, dtype=torch.float64), processes).tolist()
        means = {n: s / c for n, s, c in zip(self._terms, sums, self._counts.values(), strict=True) if c}
        self.latest = sum(weight * means.get(name, 0.0) for name, weight in weights.items())
        figures = {
            "total": self.latest,
            **means,
            "gradient_norm": sum(self._norms) / len(self._norms),
            "frames_per_second": round(self._frames / self._seconds),
        }
        self._clear()
        return figures

    def _clear(self) -> None:
        self._sums: dict[str, list[Tensor]] = {name: [] for name in self._terms}
        self._counts = dict.fromkeys(self._terms, 0.0)
        self._norms: list[float] = []
        self._frames, self._seconds = 0, 0.0
