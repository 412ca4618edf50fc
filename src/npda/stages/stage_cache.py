"""Results of stages, kept with what they depend on: a second call does only what is missing or has changed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from npda import __version__
from npda.io.files import atomic_write

T = TypeVar("T")


class StageCache:
    """One JSON file a stage. seconds: of every stage, also of one that an earlier call has done; found: their names"""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.seconds: dict[str, float] = {}
        self.found: list[str] = []

    def recall(self, stage: str, identity: dict[str, Any], kind: Any, work: Callable[[], T]) -> T:
        """The result of a stage: as it was kept, if that was of the same identity, or by doing the work.

        identity: of everything the result depends on, in JSON; kind: type of the result
        """
        wanted = _plain({**identity, "npda": __version__})
        adapter = TypeAdapter(kind)
        kept = self._read(stage)
        if kept.get("identity") == wanted:
            try:
                value = adapter.validate_python(kept["result"])
                self.seconds[stage] = float(kept["seconds"])
                self.found.append(stage)
                return value
            except (ValidationError, KeyError, ValueError, TypeError):
                pass  # damaged: done again
        start = time.perf_counter()
        value = work()
        self.seconds[stage] = round(time.perf_counter() - start, 1)
        result = adapter.dump_python(value, mode="json")
        self._write(stage, {"identity": wanted, "seconds": self.seconds[stage], "result": result})
        return value

    def begin(self, stage: str, identity: dict[str, Any]) -> None:
        """Write down of what a stage is going to be that keeps its result elsewhere."""
        self._write(stage, {"identity": _plain(identity)})

    def begun(self, stage: str, identity: dict[str, Any]) -> bool:
        """Whether that is what was written down."""
        return self._read(stage).get("identity") == _plain(identity)

    def knows(self, stage: str) -> bool:
        """Whether anything was."""
        return bool(self._read(stage))

    def _read(self, stage: str) -> dict[str, Any]:
        try:
            kept = json.loads((self._directory / f"{stage}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def _write(self, stage: str, kept: dict[str, Any]) -> None:
        with atomic_write(self._directory / f"{stage}.json") as temporary:
            temporary.write_text(json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(identity: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    return json.loads(json.dumps(identity))
