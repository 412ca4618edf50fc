"""The config.json of a model directory: which family a model is of, and how large it is."""

from __future__ import annotations

import json
from pathlib import Path

from npda.io.errors import InputError


def read_config(directory: Path) -> dict:
    """The config.json of a model directory."""
    path = directory / "config.json"
    if not path.is_file():
        raise InputError(f"{directory} is not a model directory: it has no config.json.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not JSON ({error}); restore it from the model's source.") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} does not hold a JSON object; restore it from the model's source.")
    return config
