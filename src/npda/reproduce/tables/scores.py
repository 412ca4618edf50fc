"""The tables of BLEU: adaptation, cascades, in-domain, ablation, variants of the search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from npda.report.table import Cell, Table, count, number, plain
from npda.reproduce.results import BASE, Group, Place, Results
from npda.reproduce.tables.score_cells import AVERAGE, Scores, average_cell
from npda.systems.catalogue import SYSTEMS, Data, System

NPDA = "NPDA-kNN-ST"

_BESIDE_CASCADES = (BASE, "Shallow Fusion", "E2E-JT-ST-MT", NPDA, "NPDA-kNN-ST+", "NPDA-kNN-ST++")


def is_ablation(system: System) -> bool:
    return system.name.startswith(f"{NPDA} ")


def is_variant(system: System) -> bool:
    return system.store is not None and system.store.variant not in ("vanilla", "guarded")


def adaptation(results: Results) -> Iterator[Table]:
    """Tables 1 and 2: what each system was given, what it tuned, what it gains and what that costs."""
    for group in results.groups:
        if group.general == group.domain:
            continue
        systems = [
            name
            for name in group.systems
            if not (is_ablation(SYSTEMS[name]) or is_variant(SYSTEMS[name]) or SYSTEMS[name].recogniser)
        ]
        title = f"Domain adaptation, {_ends(group)}"
        yield _adaptation(results, group, "adaptation", title, systems)


def cascade(results: Results) -> Iterator[Table]:
    """Beside systems that write down the speech before they translate it."""
    for group in results.groups:
        cascades = [name for name in group.systems if SYSTEMS[name].recogniser]
        if cascades:
            systems = [name for name in group.systems if name in (*_BESIDE_CASCADES, *cascades)]
            yield _adaptation(results, group, "cascade", f"Cascades, {_ends(group)}", systems)


def _adaptation(results: Results, group: Group, kind: str, title: str, systems: Sequence[str]) -> Table:
    scores = Scores(results, group)
    labels = scores.labels
    averaged = (AVERAGE,) if len(labels) > 1 else ()
    kinds: tuple[Data, ...] = get_args(Data)
    has_test = results.recipe.has_test(group.general)
    price_column = f"on {group.general}" if has_test else f"on {group.general} (dev)"
    columns = ("system", *kinds, "tuned M", "total M", *labels.values(), *averaged, "Δ", price_column)
    rows = []
    for system in systems:
        seen = SYSTEMS[system].data(group.large)
        cells = scores.row(system, group.domain)
        price = average_cell({labels[p]: scores.bleu(system, p, group.general) for p in group.places})
        rows.append(
            (
                scores.named(system),
                *(Cell("✓" if each in seen else "", each in seen) for each in kinds),
                *scores.parameters(system),
                *cells[: len(labels) + len(averaged)],
                scores.gain(system),
                price,
            )
        )
    notes = (
        f"Δ: against {BASE}. The last column is the price: BLEU on {group.general} after adapting to {group.domain}.",
        *(() if has_test else (f"{group.general} has no test set: its dev set, which chose checkpoints, is used.",)),
        *scores.notes(),
    )
    return Table(kind, _name(kind, group), title, columns, _with_best(rows, columns, _scored(columns)), notes)


def in_domain(results: Results) -> Iterator[Table]:
    """Table 3: the general corpus is the domain; models of one language, and one model of all."""
    corpora = dict.fromkeys(group.general for group in results.groups if group.general == group.domain)
    for corpus in corpora:
        found = [group for group in results.groups if group.general == group.domain == corpus]
        languages = tuple(dict.fromkeys(place.language for group in found for place in group.places))
        columns = ("setting", "system", "tuned M", "total M", *languages, AVERAGE)
        rows: list[tuple[Cell, ...]] = []
        notes: list[str] = []
        for group in found:
            scores = Scores(results, group, in_domain=True)
            of_group = []
            for system in group.systems:
                by_label = dict(zip((*scores.labels.values(), AVERAGE), scores.row(system, corpus), strict=True))
                cells = (by_label.get(column, Cell("")) for column in columns[4:])
                setting = plain("multilingual" if group.multilingual else "bilingual")
                of_group.append((setting, scores.named(system), *scores.parameters(system), *cells))
            rows += _with_best(of_group, columns, columns[4:])
            saved = _saved(results, group, group.systems)
            notes += [note for note in (*saved, *scores.notes()) if note not in notes]
        yield Table("in-domain", f"in-domain-{corpus}", f"In domain, {corpus}", columns, tuple(rows), tuple(notes))


def ablation(results: Results) -> Iterator[Table]:
    """Table 4: parts of the alignment left out, and how near the two paths then are."""
    for group in results.groups:
        systems = [name for name in group.systems if name == NPDA or is_ablation(SYSTEMS[name])]
        if len(systems) < 2:
            continue
        scores = Scores(results, group)
        cells = {
            (place, system): (
                *scores.against(system, place, NPDA, scores.beside.ablation(system, "bleu", place.language)),
                *_similarity(scores, system, place),
            )
            for place in group.places
            for system in systems
        }
        columns = ("language", "system", "BLEU", "Δ", "cosine", "squared distance")
        rows = _by_language(scores, systems, cells, (".2f", "+.2f", ".3f", ".3f"))
        notes = (
            f"Δ: against {NPDA}. Cosine and squared Euclidean distance: of the decoder's states for speech "
            f"and for text, on the test of {group.domain}.",
            *scores.notes(),
        )
        yield Table("ablation", _name("ablation", group), f"Ablation, {_ends(group)}", columns, rows, notes)


def _similarity(scores: Scores, system: str, place: Place) -> Iterator[Cell]:
    trial = scores.group.trial(system, place)
    found = scores.result(trial.similarity) if trial else {}
    for measure in ("cosine", "squared_distance"):
        yield number(found.get(measure), ".3f", scores.beside.ablation(system, measure, place.language))


def variants(results: Results) -> Iterator[Table]:
    """Other ways to search a datastore and to combine what is found."""
    for group in results.groups:
        systems = [name for name in group.systems if name == NPDA or is_variant(SYSTEMS[name])]
        if len(systems) < 2:
            continue
        scores = Scores(results, group)
        cells = {
            (place, system): (*scores.against(system, place, NPDA), *_costs(results, group, system, place))
            for place in group.places
            for system in systems
        }
        columns = ("language", "system", "BLEU", "Δ", "entries", "seconds")
        rows = _by_language(scores, systems, cells, (".2f", "+.2f", ",.0f", ".1f"))
        notes = (
            f"Δ: against {NPDA}. Seconds: processor time for the whole test of {group.domain}.",
            *_saved(results, group, systems),
            *scores.notes(),
        )
        yield Table("variants", _name("variants", group), f"kNN variants, {_ends(group)}", columns, rows, notes)


def _saved(results: Results, group: Group, systems: Sequence[str]) -> Iterator[str]:
    """What each system counted of its own, a sentence each."""
    for place in group.places:
        for system in systems:
            trial = group.trial(system, place)
            for name, share in (results.figures(trial) if trial else {}).items():
                yield f"{system}, {place.language}: {name} {share:.1%}."


def _costs(results: Results, group: Group, system: str, place: Place) -> tuple[Cell, Cell]:
    trial = group.trial(system, place)
    store = results.searched_store(trial) if trial else None
    seconds = results.seconds(trial, group.domain) if trial else None
    return count(store.count if store else None), number(seconds, ".1f")


def _by_language(
    scores: Scores,
    systems: Sequence[str],
    cells: Mapping[tuple[Place, str], tuple[Cell, ...]],
    forms: Sequence[str],
) -> tuple[tuple[Cell, ...], ...]:
    """A row for each language and system, then the averages over several languages. forms: of the averages"""
    rows = [(plain(scores.labels[place]), plain(system), *of_both) for (place, system), of_both in cells.items()]
    if len(scores.group.places) > 1:
        for system in systems:
            columns = zip(*(cells[place, system] for place in scores.group.places), strict=True)
            averages = (_average_of(scores, *both) for both in zip(columns, forms, strict=True))
            rows.append((plain(AVERAGE), plain(system), *averages))
    return tuple(rows)


def _average_of(scores: Scores, cells: Sequence[Cell], form: str) -> Cell:
    if all(cell.text == "" for cell in cells):
        return Cell("")
    values = {label: cell.value for label, cell in zip(scores.labels.values(), cells, strict=True)}
    return average_cell(values, form=form)


def _with_best(
    rows: Sequence[tuple[Cell, ...]], columns: Sequence[str], scored: Sequence[str]
) -> tuple[tuple[Cell, ...], ...]:
    """The highest figure of every scored column marked."""
    best = {}
    for place, column in enumerate(columns):
        values = [row[place].value for row in rows if isinstance(row[place].value, float)]
        if column in scored and values:
            best[place] = max(values)
    return tuple(
        tuple(replace(cell, best=place in best and cell.value == best[place]) for place, cell in enumerate(row))
        for row in rows
    )


def _scored(columns: Sequence[str]) -> Sequence[str]:
    """Between the parameters and Δ."""
    return columns[columns.index("total M") + 1 : columns.index("Δ")]


def _ends(group: Group) -> str:
    return f"{group.general} → {group.domain}{', multilingual' if group.multilingual else ''}"


def _name(kind: str, group: Group) -> str:
    return f"{kind}-{group.general}-{group.domain}{'-multilingual' if group.multilingual else ''}"
