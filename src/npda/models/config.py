"""The config.json of a model directory: which family a model is of, and how large it is."""

from __future__ import annotations

from pathlib import Path

from npda.io.errors import InputError
from npda.io.records import read_json


def read_config(directory: Path) -> dict:
    """The config.json of a model directory."""
    path = directory / "config.json"
    if not path.is_file():
        raise InputError(f"{directory} is not a model directory: it has no config.json.")
    try:
        config = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not JSON ({error}); restore it from the model's source.") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} does not hold a JSON object; restore it from the model's source.")
    return config
