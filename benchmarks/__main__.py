"""All benchmarks, one after the other: make bench.

    python -m benchmarks                        # figures in runs/bench/*.json
    python -m benchmarks build tune             # some of them
    python -m benchmarks --repeats 2            # any option all of them have

Each is a process of its own, so that none finds what another left in memory. At the end all lines that have a bar stand
together.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Skipped, passed, read_figures, row

FIGURES = Path("runs") / "bench"

# name of the figures → module and its own options
BENCHMARKS: dict[str, list[str]] = {
    "decode": ["decode"],
    "decode-int8": ["decode", "--int8"],
    "roofline": ["roofline"],
    "exact": ["exact"],
    "search": ["search"],
    "knn-decode": ["knn_decode"],
    "knn-decode-20m": ["knn_decode", "--keys", "20000000", "--batches", "8"],
    "build": ["build"],
    "train": ["train"],
    "cold-start": ["cold_start"],
    "tune": ["tune"],
    "skip": ["skip"],
    "verify": ["verify"],
    "compress": ["compress"],
    "scaling": ["scaling"],
    "whisper-decode": ["whisper_decode"],
    "long-file": ["long_file"],
    "end-to-end": ["end_to_end"],
    "live": ["live"],
    "serve": ["serve"],
}


def main(names: Sequence[str], options: Sequence[str]) -> bool:
    broken = [name for name in names if not run(name, options)]
    print("\nAll lines with a bar:")
    failed = []
    for name in names:
        results = read_figures(figures(name))
        for result in results:
            if isinstance(result, Skipped) or result.bar is not None:
                print(row(result))
        if name in broken or not passed(results):
            failed.append(name)
    print(f"Bars not reached by: {', '.join(failed)}." if failed else "All bars are reached.")
    if broken:
        print(f"Broken off: {', '.join(broken)}.")
    return not failed


def run(name: str, options: Sequence[str]) -> bool:
    """Run one in a process of its own. → whether it left figures"""
    module, *own = BENCHMARKS[name]
    figures(name).unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{module}", *own, *options, "--json", str(figures(name))]
    subprocess.run(command, check=False)
    return figures(name).is_file()


def figures(name: str) -> Path:
    return FIGURES / f"{name}.json"


if __name__ == "__main__":
    chosen = [name for name in BENCHMARKS if name in sys.argv[1:]]
    sys.exit(not main(chosen or list(BENCHMARKS), [word for word in sys.argv[1:] if word not in BENCHMARKS]))
