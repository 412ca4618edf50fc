"""A little of the campaign, always the same: what must never happen does not. `make faults` is all of it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked and disks mounted as on Linux")
def test_nothing_is_silently_wrong_lost_or_hangs_and_nothing_ends_with_a_traceback():
    rows = [
        "audio",
        "tables",
        "memories",
        "glossaries",
        "options",
        "recipes",
        "stores",
        "models",
        "kills",
        "disk",
        "again",
    ]
    rows += ["together", "fuzzing"]
    command = [sys.executable, "-m", "tests.faults", "--cases", str(CASES), "--only", *rows]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
