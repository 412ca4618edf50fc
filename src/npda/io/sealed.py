"""Small JSON files with their own checksum, so that a flipped bit in a setting does not pass for a setting.

Version 2 of such a file holds ``sha256`` of everything else. Version 1 had none, and may be written by hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npda.io.files import atomic_write
from npda.io.records import read_json

SEALED = 2
_SEAL = "sha256"


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object with its checksum, atomically. content: of format 1"""
    whole = {**content, "format": SEALED}
    text = json.dumps({**whole, _SEAL: _sum(whole)}, indent=2, ensure_ascii=False)
    with atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def opened(content: Any) -> Any:
    """What was sealed, as of format 1; ValueError if something has changed since. What is not sealed stays as it is."""
    if not isinstance(content, dict) or (content.get("format") != SEALED and _SEAL not in content):
        return content
    whole = {name: value for name, value in content.items() if name != _SEAL}
    if content.get(_SEAL) != _sum(whole):
        raise ValueError("it does not have the checksum that stands in it")
    return {**whole, "format": 1}


def read_sealed(path: Path) -> Any:
    """OSError or ValueError where it cannot be read, or has changed since it was written."""
    return opened(read_json(path))


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
