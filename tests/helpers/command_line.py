"""The command line, run in a process of its own."""

import subprocess
import sys


def npda(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    script = "from npda.cli import main; main()"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    options = {"timeout": 600, **options}
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
