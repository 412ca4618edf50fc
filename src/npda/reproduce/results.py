"""What the stages of a recipe have found out, read from their directories; nothing where a stage is not done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npda.datastore.format import StoreInfo, read_info
from npda.evaluation.significance import Comparison, compare
from npda.io.files import read_lines
from npda.reproduce.recipe.recipe import Direction, Recipe
from npda.systems.catalogue import MODELS
from npda.systems.variants import SMALLER

if TYPE_CHECKING:
    from npda.reproduce.planning import RecipePlan, Trial

BASE = "E2E-ST-Base"


@dataclass(frozen=True)
class Place:
    """A direction and one of its languages."""

    direction: Direction
    language: str


@dataclass(frozen=True)
class Group:
    """Directions from and to the same corpora: what stands in one table, side by side.

    multilingual: one model for all languages; otherwise each language is a direction with a model of its own
    """

    general: str
    domain: str
    multilingual: bool
    places: tuple[Place, ...]
    trials: Mapping[tuple[str, Place], Trial]

    @property
    def systems(self) -> tuple[str, ...]:
        """In the order of the recipe."""
        return tuple(dict.fromkeys(system for system, _ in self.trials))

    @property
    def large(self) -> bool:
        """Whether there is a large text in every language."""
        return all(place.direction.large_text for place in self.places)

    def trial(self, system: str, place: Place) -> Trial | None:
        return self.trials.get((system, place))


def groups(plan: RecipePlan) -> list[Group]:
    """In the order of the recipe."""
    found: dict[tuple[str, str, bool], dict[tuple[str, Place], Trial]] = {}
    for trial in plan.trials:
        direction = trial.direction
        kind = direction.general, direction.domain, len(direction.languages) > 1
        found.setdefault(kind, {})[trial.system.name, Place(direction, trial.language)] = trial
    return [Group(*kind, tuple(dict.fromkeys(place for _, place in trials)), trials) for kind, trials in found.items()]


class Results:
    """What is known about trials. directories: of the stages that are done, by name"""

    def __init__(self, recipe: Recipe, plan: RecipePlan, directories: Mapping[str, Path]) -> None:
        self.recipe, self.plan, self._directories = recipe, plan, directories
        self._compared: dict[tuple[str, str, str, str], Comparison] = {}

    @cached_property
    def groups(self) -> list[Group]:
        return groups(self.plan)

    def is_done(self, stage: str) -> bool:
        return stage in self._directories

    def bleu(self, trial: Trial, corpus: str) -> float | None:
        """On the test of a corpus."""
        return (self.json(trial.translation, "result.json") or {}).get("bleu", {}).get(corpus)

    def seconds(self, trial: Trial, corpus: str) -> float | None:
        """Of the processor, to translate the test of a corpus."""
        return (self.json(trial.translation, "result.json") or {}).get("seconds", {}).get(corpus)

    def figures(self, trial: Trial) -> dict[str, float]:
        """What a system saved, by name."""
        return (self.json(trial.translation, "result.json") or {}).get("figures", {})

    def signature(self, trials: Sequence[Trial]) -> str:
        """sacreBLEU's, of whichever trial is done."""
        found = (self.json(trial.translation, "result.json") for trial in trials)
        return next((result["signature"] for result in found if result), "")

    def translated(self, trial: Trial, corpus: str) -> tuple[list[str], list[str]] | None:
        """Hypotheses and references of the test of a corpus."""
        if not self.is_done(trial.translation):
            return None
        directory = self._directories[trial.translation]
        return read_lines(directory / f"{corpus}.txt"), read_lines(directory / f"{corpus}.reference.txt")

    def compare(self, trial: Trial, baseline: Trial, corpus: str, metric: str = "bleu") -> Comparison | None:
        """Paired bootstrap on the hypotheses of both for the test of a corpus."""
        key = trial.translation, baseline.translation, corpus, metric
        if key not in self._compared:
            ours, theirs = self.translated(trial, corpus), self.translated(baseline, corpus)
            if ours is None or theirs is None:
                return None
            (self._compared[key],) = compare(ours[0], theirs[0], ours[1], [metric])
        return self._compared[key]

    def parameters(self, trial: Trial) -> tuple[int, int] | None:
        """(tuned since the base was there, total) over all models of a trial, as the paper counts them."""
        tuned = total = 0
        names = [(trial.system.model, trial.model)]
        named = (name for name in (trial.system.language_model, trial.system.recogniser) if name)
        for name, stage in [*names, *zip(named, trial.extra, strict=True)]:
            counts = self.json(stage, "parameters.json")
            moved = self._tuned(name, stage)
            if counts is None or moved is None:
                return None
            tuned += min(moved, counts["total"])
            total += counts["total"]
        return tuned, total

    def _tuned(self, name: str, stage: str) -> int | None:
        """Parameters moved by the training of a model and of those it goes on from, down to the base."""
        if name == "base":
            return 0
        counts = self.json(stage, "parameters.json")
        if counts is None:
            return None
        model, tuned = MODELS[name], counts["tuned"]
        for earlier in (model.start, model.encoder):
            if earlier is not None and earlier != "base":
                needs = self._needs.get(stage, ())
                # A training's stage is named by the model it makes, see npda.reproduce.planning.
                tuned += next((self._tuned(earlier, need) or 0 for need in needs if need.startswith(f"{earlier} ")), 0)
        return tuned

    @cached_property
    def _needs(self) -> dict[str, tuple[str, ...]]:
        return {stage.name: stage.needs for stage in self.plan.stages}

    def store(self, trial: Trial) -> StoreInfo | None:
        """The datastore that was built for a trial."""
        directory = self._directories.get(trial.store)
        return read_info(directory / "store") if directory is not None else None

    def searched_store(self, trial: Trial) -> StoreInfo | None:
        """The datastore that a trial searches: the smaller one its variant wrote, or else the one that was built."""
        directory = self._directories.get(trial.translation)
        if directory is not None and (directory / SMALLER).is_dir():
            return read_info(directory / SMALLER)
        return self.store(trial)

    def tuning(self, trial: Trial) -> dict[str, Any] | None:
        return self.json(trial.tuning, "tuning.json")

    def result(self, stage: str) -> Any:
        return self.json(stage, "result.json")

    def json(self, stage: str, file: str) -> Any:
        directory = self._directories.get(stage)
        if directory is None or not (directory / file).is_file():
            return None
        return json.loads((directory / file).read_text(encoding="utf-8"))
