"""Results of stages that one process goes through: a second call does only what is missing or stale."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from npda.io.records import as_json, read_record, write_record
from npda.stages.code import Code
from npda.stages.freshness import Origin

T = TypeVar("T")


class StageCache:
    """A JSON file for each stage: what its result comes from, and the result itself or where it lies.

    seconds: of every stage, also of one that an earlier call has done; found: those that an earlier call has done
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._earlier = {path.stem for path in directory.glob("*.json")}
        self._nested = 0.0  # seconds of stages that were done in the middle of the present one
        self.seconds: dict[str, float] = {}
        self.found: list[str] = []

    def recall(self, stage: str, identity: dict[str, Any], code: Code, kind: Any, work: Callable[[], T]) -> T:
        """The result of a stage: as recorded unless it is stale, or by doing the work.

        identity: of everything the result depends on, in JSON; code: that makes it; kind: type of the result
        """
        adapter = TypeAdapter(kind)
        record = read_record(self._path(stage))
        if self._is_fresh(record, identity, code):
            try:
                value = adapter.validate_python(record["result"])
                self._find(stage, float(record["seconds"]))
                return value
            except (ValidationError, KeyError, ValueError, TypeError):
                pass  # damaged: done again
        with self.timed(stage):
            value = work()
        self._write(stage, identity, code, result=adapter.dump_python(value, mode="json"))
        return value

    def recall_directory(
        self, stage: str, identity: dict[str, Any], code: Code, path: Path, make: Callable[[], object]
    ) -> None:
        """Have ``path`` there, made by a stage: as it is unless it is stale, or by making it.

        make: publishes the directory as a whole; what it leaves beside it when it is killed is named .NAME.*
        """
        old = path.with_name(f".{path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        record = read_record(self._path(stage))
        fresh = self._is_fresh(record, identity, code)
        if path.exists() and fresh:
            self._find(stage, record.get("seconds"))
            return
        if path.exists():
            os.rename(path, old)  # it stays until the new one is there
        if not fresh:
            for left in path.parent.glob(f".{path.name}.*"):
                if left != old:
                    shutil.rmtree(left, ignore_errors=True)
        write_record(self._path(stage), {"identity": as_json(identity), "code": code.digest()}, indent=None)
        with self.timed(stage):
            make()
        self._write(stage, identity, code)
        shutil.rmtree(old, ignore_errors=True)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Take the time of a stage, without that of the stages inside it."""
        start, outside = time.perf_counter(), self._nested
        self._nested = 0.0
        yield
        spent = time.perf_counter() - start
        self.seconds[stage] = round(spent - self._nested, 1)
        self._nested = outside + spent

    def knows(self, stage: str) -> bool:
        """Whether anything is recorded of a stage."""
        return bool(read_record(self._path(stage)))

    def _is_fresh(self, record: dict[str, Any], identity: dict[str, Any], code: Code) -> bool:
        recorded = record.get("identity")
        if not isinstance(recorded, dict):
            return False
        recorded = {name: value for name, value in recorded.items() if name != "npda"}  # version 0.1.0 wrote its own
        origin = Origin(recorded, str(record.get("code", "")))
        return not origin.difference(Origin(as_json(identity), code.digest()))

    def _find(self, stage: str, seconds: float | None) -> None:
        if seconds is not None:
            self.seconds[stage] = seconds
        if stage in self._earlier and stage not in self.found:  # and not by a process beside this one
            self.found.append(stage)

    def _write(self, stage: str, identity: dict[str, Any], code: Code, **more: Any) -> None:
        self._earlier.discard(stage)
        record = {"identity": as_json(identity), "code": code.digest(), "seconds": self.seconds[stage], **more}
        write_record(self._path(stage), record, indent=None)

    def _path(self, stage: str) -> Path:
        return self._directory / f"{stage}.json"
