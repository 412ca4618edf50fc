"""The tables of everything but BLEU on the tests: datastore size, tuned parameters, datastores, speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from npda.report.table import MISSING, Cell, Table, count, not_done, number, plain
from npda.reproduce.results import Group, Place, Results
from npda.reproduce.tables.paper import BRACKETS, Beside

if TYPE_CHECKING:
    from npda.reproduce.planning import Trial


def datastore_size(results: Results) -> Iterator[Table]:
    """Figure 2: BLEU with ever larger parts of the text."""
    rows, missing = [], []
    for (direction, language), stage in results.plan.sizes.items():
        points = results.result(stage)
        if points is None:
            missing.append(stage)
            rows.append((plain(direction), plain(language), *[Cell(MISSING)] * 4))
        rows += [
            (
                plain(direction),
                plain(language),
                number(point["fraction"], "g"),
                count(point["pairs"]),
                count(point["keys"]),
                number(point["bleu"], ".2f"),
            )
            for point in points or ()
        ]
    if rows:
        columns = ("direction", "language", "fraction", "pairs", "keys", "BLEU")
        notes = ("NPDA-kNN-ST, with k, λ and T as tuned for the whole datastore.", *not_done(missing))
        yield Table("datastore-size", "datastore-size", "BLEU by size of the datastore", columns, tuple(rows), notes)


def tuned(results: Results) -> Iterator[Table]:
    """The best k, λ and T of every direction, and the weight of its language model."""
    columns = ("direction", "language", "system", "k", "λ", "T", "weight", "dev BLEU", "dev BLEU without")
    rows, missing, told = [], [], False
    for group, place, trial in _trials(results):
        if not trial.tuning:
            continue
        found = results.tuning(trial)
        if found is None:
            missing.append(trial.tuning)
        found = found or {}
        best, beside = found.get("best") or {}, Beside(results.recipe, group)
        knn = []
        if trial.store:
            for name in ("k", "lambda", "temperature"):
                paper = beside.listed("tuned", trial.system.name, name, place.language)
                told |= paper is not None
                knn.append(number(best.get(name), "g", paper))
        weight = number(found.get("weight"), "g") if trial.system.language_model else Cell("")
        dev = (number(found.get(name), ".2f") for name in ("bleu", "base_bleu"))
        named = plain(place.direction.name), plain(place.language), plain(trial.system.name)
        rows.append((*named, *(knn or [Cell("")] * 3), weight, *dev))
    if rows:
        notes = ((BRACKETS,) if told else ()) + not_done(missing)
        yield Table("tuned", "tuned", "Tuned on dev speech", columns, tuple(rows), notes)


def datastores(results: Results) -> Iterator[Table]:
    """Entries and bytes of every datastore."""
    columns = ("direction", "language", "system", "pairs", "entries", "keys", "index", "B/key", "index B/key")
    rows, missing, told, seen = [], [], False, set()
    for group, place, trial in _trials(results):
        if not trial.store or trial.store in seen:
            continue
        seen.add(trial.store)
        beside, system = Beside(results.recipe, group), trial.system.name
        paper = [beside.listed("datastores", system, what, place.language) for what in ("entries", "keys", "index")]
        told |= any(paper)
        named = plain(place.direction.name), plain(place.language), plain(system)
        info = results.store(trial)
        if info is None:
            missing.append(trial.store)
            rows.append((*named, *[Cell(MISSING)] * 6))
            continue
        keys = sum(shard.files["keys.npy"].bytes for shard in info.shards)
        index = sum(file.bytes for file in info.index.files.values())
        rows.append(
            (
                *named,
                count(sum(source.sentences for source in info.sources)),
                count(info.count, paper[0]),
                _bytes(keys, paper[1]),
                _bytes(index, paper[2]) if index else Cell("none", 0, paper=paper[2]),
                number(keys / info.count if info.count else None, ".1f"),
                number(index / info.count if info.count else None, ".1f"),
            )
        )
    if rows:
        notes = (
            "Keys are 16-bit floats; without an index every search looks at every key.",
            *((BRACKETS,) if told else ()),
            *not_done(missing),
        )
        yield Table("datastores", "datastores", "Datastores", columns, tuple(rows), notes)


def speed(results: Results) -> Iterator[Table]:
    """Time with the datastore over time without it, for k × batch."""
    for (direction, language), stage in results.plan.speeds.items():
        found = results.result(stage)
        group = next(g for g in results.groups if any(p.direction.name == direction for p in g.places))
        paper = Beside(results.recipe, group).speed(language)
        title, name = f"Speed, {direction} {language}", f"speed-{direction}-{language}"
        if found is None:
            yield Table("speed", name, title, ("k", "batch"), ((Cell(MISSING), Cell(MISSING)),), not_done([stage]))
            continue
        batches = sorted({row["batch"] for row in found})
        measured = {(row["k"], row["batch"]): row for row in found}
        columns = ("k", *(f"batch {batch}" for batch in batches))
        ks = sorted({row["k"] for row in found})
        base = (min(measured[k, batch]["base"] for k in ks) for batch in batches)
        rows = [(plain("without, s/sentence"), *(number(seconds, ".3f") for seconds in base))]
        for k in ks:
            cells = (_ratio(measured[k, batch]["ratio"], paper.get((k, batch))) for batch in batches)
            rows.append((Cell(str(k), k), *cells))
        notes = (
            "Time of NPDA-kNN-ST divided by that of the same model without a datastore, both measured by turns in "
            "one run, on one thread of the processor.",
            *((f"{BRACKETS[:-1]}, on a V100.",) if paper else ()),
        )
        yield Table("speed", name, title, columns, tuple(rows), notes)


def _trials(results: Results) -> Iterator[tuple[Group, Place, Trial]]:
    for group in results.groups:
        for (_, place), trial in group.trials.items():
            yield group, place, trial


def _ratio(value: float, paper: float | None) -> Cell:
    return Cell(f"×{value:.2f}", value, paper=paper, form=".2f")


def _bytes(value: int, paper: str | None) -> Cell:
    text = f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value:,} B"
    return Cell(text, value, paper=paper)
