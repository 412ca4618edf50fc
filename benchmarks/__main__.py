"""All benchmarks, one after the other: make bench.

    python -m benchmarks                   # figures in runs/bench/*.json
    python -m benchmarks --repeats 2       # any option all of them have

Each is a process of its own, so that none finds what another left in memory.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIGURES = Path("runs") / "bench"

# name of the figures → module and its own options
BENCHMARKS: dict[str, list[str]] = {
    "decode": ["decode"],
    "decode-int8": ["decode", "--int8"],
    "roofline": ["roofline"],
    "search": ["search"],
    "knn-decode": ["knn_decode"],
    "build": ["build"],
    "tune": ["tune"],
    "skip": ["skip"],
    "scaling": ["scaling"],
    "whisper-decode": ["whisper_decode"],
}


def main(options: list[str]) -> bool:
    failed = []
    for name, (module, *own) in BENCHMARKS.items():
        command = [
            sys.executable,
            "-m",
            f"benchmarks.{module}",
            *own,
            *options,
            "--json",
            str(FIGURES / f"{name}.json"),
        ]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print(f"Bars not reached by: {', '.join(failed)}." if failed else "All bars are reached.")
    return not failed


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
