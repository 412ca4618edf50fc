"""Work that was done, part by part, so that a later run can go on where a killed one stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TextIO

from npda.io.errors import InputError
from npda.io.files import writing


class Journal:
    """A file of JSON lines: what the work is, then its parts as they are done.

    of: tells this work from any other; resume: go on with what is there, which has to be of the same work
    """

    def __init__(self, path: Path, of: str, resume: bool) -> None:
        self.path = path
        self._done: dict[str, Any] = {}
        kept = ""
        if resume and path.is_file():
            kept = self._read(of)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: TextIO = open(path, "w", encoding="utf-8")  # noqa: SIM115 (closed by ``close``)
            self._file.write(kept or self._line({"format": 1, "of": of}))
            self._file.flush()

    @property
    def count(self) -> int:
        """Parts that were done before."""
        return len(self._done)

    def get(self, part: str) -> Any:
        """What a part gave, or None if it is not done yet."""
        return self._done.get(part)

    def add(self, part: str, value: Any) -> None:
        """A part is done: it is on the disk when this returns."""
        with writing(self.path):
            self._file.write(self._line({"part": part, "value": value}))
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """All is done."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _read(self, of: str) -> str:
        """→ the lines that are whole"""
        whole = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            try:
                entry = json.loads(line) if line.endswith("\n") else None
            except ValueError:
                entry = None
            if not isinstance(entry, dict):
                break  # killed while it was written
            whole.append(line)
            if len(whole) == 1:
                if entry.get("of") != of:
                    raise InputError(
                        f"{self.path} belongs to another model, input or setting: leave out --resume to start afresh."
                    )
            else:
                self._done[str(entry.get("part"))] = entry.get("value")
        return "".join(whole)

    @staticmethod
    def _line(entry: dict[str, Any]) -> str:
        return json.dumps(entry) + "\n"
