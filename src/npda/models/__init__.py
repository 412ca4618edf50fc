"""Translators of speech and of text behind one protocol, and the way to open them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from npda.errors import InputError

if TYPE_CHECKING:
    from npda.models.speech2text import Speech2Text
    from npda.models.text2text import Text2Text

_SPEECH, _TEXT = "speech_to_text", "npda-text2text"


def load_backbone(directory: str | Path) -> Speech2Text | Text2Text:
    """Open a model directory of either kind, whoever saved it: npda or transformers' ``save_pretrained``."""
    directory = Path(directory)
    model_type = read_config(directory).get("model_type")
    if model_type not in (_SPEECH, _TEXT):
        raise InputError(
            f"{directory}: models of type {model_type!r} cannot be opened; expected a Speech2Text directory "
            f"(model_type {_SPEECH!r} in its config.json)."
        )
    if not (directory / "model.safetensors").is_file() and not (directory / "model.safetensors.index.json").is_file():
        raise InputError(
            f"{directory}: there is no model.safetensors; save the model with save_pretrained() of transformers 5, "
            "pickled weights are not opened."
        )
    if model_type == _TEXT:
        from npda.models.text2text import Text2Text

        return Text2Text.from_pretrained(directory)
    from npda.models.speech2text import Speech2Text

    try:
        return Speech2Text.from_pretrained(directory)
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{directory}: the model cannot be loaded: {reason}") from error


def load_speech2text(directory: str | Path) -> Speech2Text:
    """Open a model that hears."""
    from npda.models.speech2text import Speech2Text

    backbone = load_backbone(directory)
    if not isinstance(backbone, Speech2Text):
        raise InputError(f"{directory} translates text; give the directory of a speech translator or recogniser.")
    return backbone


def load_text2text(directory: str | Path) -> Text2Text:
    """Open a model that translates text."""
    from npda.models.text2text import Text2Text

    backbone = load_backbone(directory)
    if not isinstance(backbone, Text2Text):
        raise InputError(f"{directory} translates speech; give the directory of a text translator.")
    return backbone


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
