"""What the command line changes in a recipe before it is checked: --set KEY=VALUE and --data NAME=DIR."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npda.io.errors import InputError
from npda.io.names import unknown
from npda.reproduce.recipe.loading import parse_yaml


def set_values(recipe: dict[str, Any], changes: Iterable[str]) -> None:
    """Put values in their places: "model.training.max_epochs=3", "directions.0.languages=[fr]"; values are YAML."""
    for change in changes:
        name, equals, text = change.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise InputError(f"--set {change}: give KEY=VALUE, for instance model.training.max_epochs=3.")
        place: Any = recipe
        for key in keys[:-1]:
            place = _inside(place, key, change)
        _put(place, keys[-1], parse_yaml(text, f"--set {change}"), change)


def set_roots(recipe: dict[str, Any], folders: Iterable[str]) -> None:
    """Give corpora their folders: "NAME=DIR", for the corpus of that name, or for all of that kind, e.g. mustc.

    Unlike a path in the recipe, DIR is relative to the current directory, as everywhere on the command line.
    """
    corpora = recipe.get("corpora")
    corpora = {n: c for n, c in corpora.items() if isinstance(c, dict)} if isinstance(corpora, dict) else {}
    for folder in folders:
        name, equals, directory = folder.partition("=")
        if not (equals and name and directory):
            raise InputError(f"--data {folder}: give NAME=DIR, for instance mustc=/data/mustc.")
        kinds = [corpus for corpus in corpora.values() if corpus.get("kind") == name]
        chosen = [corpora[name]] if name in corpora else kinds
        if not chosen:
            known = dict.fromkeys([*corpora, *(str(corpus.get("kind")) for corpus in corpora.values())])
            raise InputError(f"--data {folder}: {unknown('corpus', name, known)}")
        for corpus in chosen:
            corpus["root"] = str(Path(directory).expanduser().absolute())


def _inside(place: Any, key: str, change: str) -> Any:
    if isinstance(place, dict):
        if place.get(key) is None:
            place[key] = {}
        return place[key]
    return place[_index(place, key, change)]


def _put(place: Any, key: str, value: Any, change: str) -> None:
    if isinstance(place, dict):
        place[key] = value
    else:
        place[_index(place, key, change)] = value


def _index(place: Any, key: str, change: str) -> int:
    if not isinstance(place, list):
        raise InputError(f"--set {change}: there is nothing inside {place!r} that could be called {key!r}.")
    if not key.isdecimal() or int(key) >= len(place):
        raise InputError(f"--set {change}: {key!r} is not a position in a list of {len(place)}; they count from 0.")
    return int(key)
