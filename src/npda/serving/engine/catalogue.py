"""What can be told of a model without loading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from npda.io.errors import InputError
from npda.models.hub import model_directory
from npda.serving.settings import Settings


@dataclass
class Described:
    """Languages by their codes, none where the model's files do not tell them."""

    path: Path

    @cached_property
    def _told(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        config, generation, made = (
            _read(self.path / f"{name}.json") for name in ("config", "generation_config", "model")
        )
        return config, generation, made

    @property
    def created(self) -> int:
        try:
            return int((self.path / "config.json").stat().st_mtime)
        except OSError:
            return 0

    @property
    def tasks(self) -> list[str]:
        return ["translate", "transcribe"] if self._told[0].get("model_type") == "whisper" else ["translate"]

    @property
    def source_languages(self) -> list[str]:
        tags = self._told[1].get("lang_to_id")
        return sorted(tag.strip("<|>") for tag in tags) if isinstance(tags, dict) else []

    @property
    def target_languages(self) -> list[str]:
        config, generation, made = self._told
        if config.get("model_type") == "whisper":
            return list(dict.fromkeys([generation.get("target_language") or "en", "en"]))
        return [made["language"]] if isinstance(made.get("language"), str) else []


class Catalogue:
    """The served models."""

    def __init__(self, settings: Settings) -> None:
        self.models: dict[str, Described] = {}
        for name, given in settings.models.items():
            try:
                path = model_directory(given)
            except InputError:
                path = given  # the sentence about it comes when it is loaded
            self.models[name] = Described(path)

    def written(self, model: str) -> str | None:
        """The language that a model writes unless told otherwise, if it has said so."""
        return next(iter(self.models[model].target_languages), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
