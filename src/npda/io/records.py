"""Small JSON files that a program leaves for its next run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from npda.io.files import atomic_write


def as_json(value: Any) -> Any:
    """The value as it comes back from a JSON file: tuples are lists, keys are strings."""
    return json.loads(json.dumps(value))


def read_json(path: Path) -> Any:
    """What a JSON file holds; OSError, or ValueError if it is damaged or nested beyond reason."""
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_record(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing, damaged or holds something else."""
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_record(path: Path, record: Any, indent: int | None = 2) -> None:
    """Write JSON, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(record, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")
