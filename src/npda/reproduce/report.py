"""The tables of a recipe for readers and for programs: Markdown, CSV, JSON, and one HTML page with pictures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from npda.io.files import atomic_write
from npda.report.page import head
from npda.report.table import Cell, Table
from npda.reproduce.plots import pictures
from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.tables.paper import MINI, is_mini

_MORE_CSS = """
body { max-width: 76rem; }
.card h2 { font-size: 1.15rem; margin-bottom: .5rem; }
.card svg { display: block; width: 100%; max-width: 34rem; height: auto; margin: .4rem 0 0; }
.scroll { overflow-x: auto; }
table.wide { font-size: .95rem; margin: .3rem 0 .5rem; }
table.wide td, table.wide th { border-top: 1px solid var(--line); padding: .35rem 1rem .35rem 0; text-align: right;
  white-space: nowrap; }
table.wide thead th { border-top: 0; white-space: normal; vertical-align: bottom; }
table.wide .name { text-align: left; }
table.wide tr.npda th { color: var(--store); font-weight: 650; }
table.wide b { font-weight: 650; }
.card ul { margin: .3rem 0 0; padding: 0; list-style: none; }
.card li { overflow-wrap: anywhere; }
"""

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
    parts = [f"# Results of the recipe {recipe.name}\n", *(f"{remark}\n" for remark in _remarks(recipe))]
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
    """A page that needs nothing but itself."""
    title = f"Results of the recipe {recipe.name}"
    remarks = "\n".join(f'<p class="intro soft">{escape(remark)}</p>' for remark in _remarks(recipe))
    sections = "\n".join(map(_section, tables))
    return f"""{head(title, _MORE_CSS)}<body>
<header>
<h1>{escape(title)}</h1>
{remarks}
</header>
<main>
{sections}
</main>
</body>
</html>
"""


def _section(table: Table) -> str:
    heads = "".join(f'<th scope="col"{_left(column)}>{escape(column)}</th>' for column in table.columns)
    rows = "\n".join(_html_row(table, row) for row in table.rows)
    notes = "".join(f"<li>{_html_note(note)}</li>" for note in table.notes)
    drawn = "\n".join(pictures(table))
    return f"""<section class="card">
<h2>{escape(table.title)}</h2>
<div class="scroll"><table class="wide"><thead><tr>{heads}</tr></thead><tbody>
{rows}
</tbody></table></div>
{drawn}
<ul class="soft small">{notes}</ul>
</section>"""


def _html_row(table: Table, row: Sequence[Cell]) -> str:
    cells = []
    for column, cell in zip(table.columns, row, strict=True):
        shown = _html_cell(cell)
        is_head = column == "system" or (column == "k" and table.columns[0] == "k")
        cells.append(f'<th scope="row"{_left(column)}>{shown}</th>' if is_head else f"<td{_left(column)}>{shown}</td>")
    ours = any(cell.value == "NPDA-kNN-ST" for cell in row)
    kind = ' class="npda"' if ours else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text)
    shown = f"<b>{text}</b>" if cell.best else text
    if cell.arrow:
        shown += f" {cell.arrow}"
    if cell.p is not None:
        shown = f'<span title="{escape(f"p = {cell.p:.4f} against {cell.against}")}">{shown}</span>'
    if cell.paper_text:
        shown += f' <span class="soft small">[{escape(cell.paper_text)}]</span>'
    return shown


def _html_note(note: str) -> str:
    return f"<code>{escape(note)}</code>" if note.startswith("BLEU|") else escape(note)


def _left(column: str) -> str:
    return ' class="name"' if column in NAMES else ""


def _remarks(recipe: Recipe) -> list[str]:
    return [MINI] if is_mini(recipe) else []


def _write(path: Path, content: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(content, encoding="utf-8")
