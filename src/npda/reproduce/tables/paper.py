"""The paper's own figures, and where they may stand beside ours: same corpora, same language, same system."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import yaml

from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.results import Group

MINI = "mini: embedded corpus, only the order of systems compares with the paper."
BRACKETS = "In brackets: the paper's figures."
OTHER_DATA = "† the paper's system of this name was given other data: "


@cache
def figures() -> dict[str, Any]:
    """All of paper.yaml."""
    text = resources.files("npda.reproduce.tables").joinpath("paper.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def is_mini(recipe: Recipe) -> bool:
    return any(corpus.kind == "mini" for corpus in recipe.corpora.values())


class Beside:
    """What the paper says about a group of directions; nothing if it has another setting."""

    def __init__(self, recipe: Recipe, group: Group) -> None:
        self.kinds = recipe.corpora[group.general].kind, recipe.corpora[group.domain].kind
        self.multilingual = group.multilingual

    def scores(self, system: str) -> dict[str, Any]:
        """The row of a system in tables 1 to 3 or that of cascades: bleu by language, average, data."""
        if self.kinds == ("mustc", "mustc"):
            part = figures()["in-domain"]
            row = part["multilingual" if self.multilingual else "bilingual"].get(system)
        else:
            part = self._part(figures()["adaptation"])
            row = part["systems"].get(system) if part else None
        if part is None or row is None:
            return {}
        return {**row, "bleu": dict(zip(part["languages"], row["bleu"], strict=True))}

    def ablation(self, system: str, measure: str, language: str) -> float | None:
        """measure: bleu, cosine or squared_distance"""
        part = figures()["ablation"]
        if self.kinds != ("mustc", "europarl-st") or self.multilingual or system not in part["systems"]:
            return None
        return _of(part["languages"], part["systems"][system][measure], language)

    def listed(self, table: str, system: str, what: str, language: str) -> Any:
        """A figure of the tables of tuned parameters or of datastores."""
        part = self._part(figures()[table])
        if part is None or system not in part["systems"]:
            return None
        return _of(part["languages"], part["systems"][system][what], language)

    def speed(self, language: str) -> dict[tuple[int, int], float]:
        """(k, batch) → ratio to the base, of NPDA-kNN-ST."""
        if self.kinds != ("mustc", "europarl-st") or self.multilingual or language != "de":
            return {}
        part = figures()["speed"]
        rows = zip(part["NPDA-kNN-ST"]["k"], part["NPDA-kNN-ST"]["ratio"], strict=True)
        return {(k, batch): ratio for k, row in rows for batch, ratio in zip(part["batch"], row, strict=True)}

    def _part(self, parts: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        for part in parts:
            if (part["general"], part["domain"]) == self.kinds and part.get("multilingual", False) == self.multilingual:
                return part
        return None


def _of(languages: Sequence[str], values: Sequence[Any], language: str) -> Any:
    return dict(zip(languages, values, strict=True)).get(language)
