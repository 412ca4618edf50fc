"""`npda serve` as a process of its own, on a free port of loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

PATIENCE = 240.0  # seconds after which something hangs


@dataclass(frozen=True)
class Served:
    url: str
    process: subprocess.Popen[str]
    log: Path

    def logged(self) -> list[dict[str, Any]]:
        """Lines of the log."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def memory(self) -> int:
        """Bytes that are resident."""
        return psutil.Process(self.process.pid).memory_info().rss

    def end(self, number: int) -> int:
        """Send a signal. → exit code"""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def served(folder: Path, *arguments: object, **environment: str) -> Iterator[Served]:
    """folder: for what the server keeps and logs"""
    folder.mkdir(parents=True, exist_ok=True)
    script = "from npda.cli import main; main()"
    own = ("serve", "--port", 0, "--data", folder / "data", *arguments)
    command = [sys.executable, "-c", script, *map(str, own)]
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder, env={**os.environ, **environment}
        )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()  # nothing else is said before
        found = re.search(r"http://localhost(:\d+)", said)
        assert found is not None, said + log.read_text()
        yield Served(f"http://127.0.0.1{found[1]}", process, log)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
