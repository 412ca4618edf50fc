"""A target under atheris: python -m tests.faults.guided TARGET [libFuzzer's options]"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

atheris: Any = import_module("atheris")  # which few have

with atheris.instrument_imports(include=["npda"]):
    from tests.faults.targets import TARGETS, tried


def main() -> None:
    name = sys.argv.pop(1)
    assert name in TARGETS, name
    atheris.Setup(sys.argv, lambda data: tried(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
