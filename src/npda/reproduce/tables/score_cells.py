"""BLEU as a cell: with the arrow of its significance test, the paper's figure beside it, and what to say below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING, Any

from npda.report.table import Cell, not_done, number, plain
from npda.reproduce.results import BASE, Group, Place, Results
from npda.reproduce.tables.paper import BRACKETS, OTHER_DATA, Beside
from npda.systems.catalogue import SYSTEMS

if TYPE_CHECKING:
    from npda.reproduce.planning import Trial

AVERAGE = "avg"
CLEARLY, PROBABLY = 0.01, 0.05  # levels of ⇑ and ↑


class Scores:
    """The cells of a group's systems, and what has to be said below them."""

    def __init__(self, results: Results, group: Group, in_domain: bool = False) -> None:
        self._results, self.group, self._in_domain = results, group, in_domain
        self.beside = Beside(results.recipe, group)
        languages = [place.language for place in group.places]
        self.labels = {
            place: place.language
            if languages.count(place.language) == 1
            else f"{place.direction.name} {place.language}"
            for place in group.places
        }
        self._missing: list[str] = []
        self._against: dict[str, str] = {}
        self._other_data: list[str] = []
        self._paper = False

    def named(self, system: str) -> Cell:
        """The name, marked where the paper's system of this name has seen other data."""
        told = self.beside.scores(system).get("data")
        if told is None or set(told) == SYSTEMS[system].data(self.group.large):
            return plain(system)
        self._other_data.append(f"{system} {' + '.join(told)}")
        return Cell(f"{system} †", system)

    def parameters(self, system: str) -> tuple[Cell, Cell]:
        """Tuned and total, of the first language whose models are there."""
        told = self.beside.scores(system)
        trials = (self.group.trial(system, place) for place in self.group.places)
        found = next((p for trial in trials if trial and (p := self._results.parameters(trial))), None)
        if found is None:
            return number(None, ".1f", told.get("tuned")), number(None, ".1f", told.get("total"))
        tuned, total = found
        if self._in_domain and system == BASE:
            tuned = total  # as in the paper: here nothing is there before it
        return _millions(tuned, told.get("tuned")), _millions(total, told.get("total"))

    def row(self, system: str, corpus: str) -> list[Cell]:
        """BLEU of every place with the arrow against the system's baseline, then the average."""
        told = self.beside.scores(system)
        cells = {
            label: self.tested(system, place, corpus, told.get("bleu", {}).get(place.language))
            for place, label in self.labels.items()
        }
        average = average_cell({label: cell.value for label, cell in cells.items()}, told.get("average"))
        # An average over other languages than the paper's is another figure.
        same = set(told.get("bleu", {})) == {place.language for place in self.group.places}
        return [*cells.values(), average if same else replace(average, paper=None)]

    def gain(self, system: str) -> Cell:
        """Over the base, averaged over the places."""
        if system == BASE:
            return Cell("")
        gains = {}
        for place, label in self.labels.items():
            ours, base = (self.bleu(name, place, self.group.domain) for name in (system, BASE))
            gains[label] = None if ours is None or base is None else ours - base
        return average_cell(gains, form="+.2f")

    def against(self, system: str, place: Place, other: str, paper: float | None = None) -> tuple[Cell, Cell]:
        """BLEU and the difference from another system."""
        cell = self.tested(system, place, self.group.domain, paper)
        if system == other:
            self._against.pop(system, None)
            return replace(cell, p=None, against="", arrow=""), Cell("")
        base = self.bleu(other, place, self.group.domain)
        return cell, number(None if cell.value is None or base is None else cell.value - base, "+.2f")

    def bleu(self, system: str, place: Place, corpus: str) -> float | None:
        trial = self.group.trial(system, place)
        return self._results.bleu(trial, corpus) if trial else None

    def result(self, stage: str) -> dict[str, Any]:
        found = self._results.result(stage)
        if found is None and stage:
            self._miss(stage)
        return found or {}

    def notes(self) -> tuple[str, ...]:
        """Call it when all cells are made."""
        notes = []
        if self._against:
            baselines = list(self._against.values())
            usual = max(dict.fromkeys(baselines), key=baselines.count)
            test = f"⇑ ↑ better, ⇓ ↓ worse than {usual} with p < 0.01, p < 0.05 (paired bootstrap)"
            others = [f"{system} against {other}" for system, other in self._against.items() if other != usual]
            notes.append("; ".join([test, *others]) + ".")
        if self._paper:
            notes.append(BRACKETS)
        if self._other_data:
            notes.append(OTHER_DATA + "; ".join(dict.fromkeys(self._other_data)) + ".")
        notes += not_done(self._missing)
        if signature := self._results.signature(list(self.group.trials.values())):
            notes.append(f"BLEU|{signature}")
        return tuple(notes)

    def tested(self, system: str, place: Place, corpus: str, paper: float | None) -> Cell:
        self._paper |= paper is not None
        trial = self.group.trial(system, place)
        value = self._results.bleu(trial, corpus) if trial else None
        if trial is None or value is None:
            if trial is not None:
                self._miss(trial.translation)
            return number(None, ".2f", paper)
        baseline = self._baseline(trial, place)
        test = self._results.compare(trial, baseline, corpus) if baseline else None
        if baseline is None or test is None:
            return number(value, ".2f", paper)
        self._against[system] = baseline.system.name
        arrow = arrow_of(test.delta, test.p_value)
        return replace(number(value, ".2f", paper), p=test.p_value, against=baseline.system.name, arrow=arrow)

    def _baseline(self, trial: Trial, place: Place) -> Trial | None:
        if trial.system.baseline is None:
            return None
        # Not every direction has them all; the base is always the least to be compared with.
        return self.group.trial(trial.system.baseline, place) or self.group.trial(BASE, place)

    def _miss(self, stage: str) -> None:
        self._missing.append(stage)


def arrow_of(delta: float, p: float) -> str:
    """⇑ ↑ for better, ⇓ ↓ for worse, with p below 0.01 and 0.05; no difference is never significant."""
    if delta == 0 or p >= PROBABLY:
        return ""
    return ("⇑" if delta > 0 else "⇓") if p < CLEARLY else ("↑" if delta > 0 else "↓")


def average_cell(values: Mapping[str, float | None], paper: float | None = None, form: str = ".2f") -> Cell:
    """Over all of them or not at all."""
    known = {name: value for name, value in values.items() if value is not None}
    if not known or len(known) < len(values):
        return replace(number(None, form, paper), of=known)
    return replace(number(mean(known.values()), form, paper), of=known if len(known) > 1 else {})


def _label(place: Place, group: Group) -> str:
    """The language, unless two directions have the same."""
    same = [other for other in group.places if other.language == place.language]
    return place.language if len(same) == 1 else f"{place.direction.name} {place.language}"


def _millions(parameters: int, paper: float | None) -> Cell:
    return Cell(f"{parameters / 1e6:.1f}", parameters, paper=paper, form=".1f")
