"""The tables of a recipe for readers and for programs: Markdown, CSV, JSON, and one HTML page with pictures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npda.io.files import atomic_write
from npda.report.page import render
from npda.report.table import Cell, Table
from npda.reproduce.plots import pictures
from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.tables.paper import MINI, is_mini

NAMES = ("system", "setting", "language", "direction")  # columns of words, which stand to the left


@dataclass(frozen=True)
class ReportFiles:
    """Where a report is."""

    markdown: Path
    page: Path
    json: Path
    csv: tuple[Path, ...]

    def record(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "markdown": str(self.markdown),
            "html": str(self.page),
            "json": str(self.json),
            "csv": [str(path) for path in self.csv],
        }


def write_report(directory: Path, recipe: Recipe, tables: Sequence[Table]) -> ReportFiles:
    """Write NAME.md, NAME.html, NAME.json and a NAME-TABLE.csv for each table; NAME: the recipe's"""
    files = ReportFiles(
        directory / f"{recipe.name}.md",
        directory / f"{recipe.name}.html",
        directory / f"{recipe.name}.json",
        tuple(directory / f"{recipe.name}-{table.name}.csv" for table in tables),
    )
    _write(files.markdown, markdown(recipe, tables))
    _write(files.page, page(recipe, tables))
    _write(files.json, json.dumps(record(recipe, tables), ensure_ascii=False, indent=1) + "\n")
    for path, table in zip(files.csv, tables, strict=True):
        _write(path, csv_of(table))
    return files


def record(recipe: Recipe, tables: Sequence[Table]) -> dict[str, Any]:
    """Everything at full precision, for scripts."""
    return {"recipe": recipe.name, "notes": _remarks(recipe), "tables": [table.record() for table in tables]}


def markdown(recipe: Recipe, tables: Sequence[Table]) -> str:
    parts = [f"# {_title(recipe)}\n", *(f"{remark}\n" for remark in _remarks(recipe))]
    parts += ["\n".join(_markdown_table(table)) + "\n" for table in tables]
    return "\n".join(parts)


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"## {_markdown_text(table.title)}\n"
    yield _markdown_row([_markdown_text(column) for column in table.columns])
    yield _markdown_row(["---" if column in NAMES else "---:" for column in table.columns])
    for row in table.rows:
        yield _markdown_row([_markdown_cell(cell) for cell in row])
    yield ""
    for note in table.notes:
        yield f"- `{note}`" if note.startswith("BLEU|") else f"- {_markdown_text(note)}"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_text(cell.text)
    shown = [f"**{text}**" if cell.best else text, cell.arrow, f"[{cell.paper_text}]" if cell.paper_text else ""]
    return " ".join(filter(None, shown))


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_|<])", r"\\\1", text)


def csv_of(table: Table) -> str:
    """A table at full precision; beside a column what else is known of its cells: arrow, p and the paper's figure."""
    more = {
        column: [name for name in ("arrow", "p", "against", "paper") if any(_known(cell, name) for cell in cells)]
        for column in table.columns
        if (cells := table.column(column))
    }
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([name for column in table.columns for name in (column, *(f"{column} {m}" for m in more[column]))])
    for row in table.rows:
        values: list[Any] = []
        for column, cell in zip(table.columns, row, strict=True):
            values += ["" if cell.value is None else cell.value]
            values += [getattr(cell, name) if _known(cell, name) else "" for name in more[column]]
        writer.writerow(values)
    return stream.getvalue()


def _known(cell: Cell, name: str) -> bool:
    return getattr(cell, name) not in (None, "")


def page(recipe: Recipe, tables: Sequence[Table]) -> str:
    """One HTML page with pictures."""
    return render(
        "recipe.html",
        title=_title(recipe),
        remarks=_remarks(recipe),
        tables=tables,
        names=NAMES,
        pictures={table.name: pictures(table) for table in tables},
    )


def _title(recipe: Recipe) -> str:
    return f"Results of the recipe {recipe.name}"


def _remarks(recipe: Recipe) -> list[str]:
    return [MINI] if is_mini(recipe) else []


def _write(path: Path, content: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
