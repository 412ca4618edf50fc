"""The environment of a child process that imports the helpers of the tests."""

import os
from pathlib import Path


def child_env() -> dict[str, str]:
    here = str(Path(__file__).parent)
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([here, *([before] if before else [])])}
