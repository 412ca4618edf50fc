"""Stages for the machines of a cluster, in a module that they can import."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from npda.io.errors import InputError
from npda.stages.plan import StageLog


def writes(directory: Path, needed: Mapping[str, Path], log: StageLog, words: str) -> None:
    before = [(path / "out.txt").read_text() for path in needed.values()]
    (directory / "out.txt").write_text(" ".join([*before, words]))


def fails(directory: Path, needed: Mapping[str, Path], log: StageLog) -> None:
    raise InputError("nothing to do it with")


def is_killed_once(directory: Path, needed: Mapping[str, Path], log: StageLog) -> None:
    if not (directory / "killed").exists():
        (directory / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (directory / "out.txt").write_text("survived")
