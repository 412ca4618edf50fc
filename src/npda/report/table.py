"""A table as data: what it shows, and behind every cell the figure at full precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MISSING = "—"
_NAMED = 4  # missing stages that a note names


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and what is behind it.

    text: without arrow and without the paper's figure; value: at full precision, None if there is none;
    p, against: of the significance test, and which system it compares with; arrow: what came of it;
    paper: the paper's figure for the same thing; of: what an average is the average of; best: of its column
    """

    text: str
    value: Any = None
    p: float | None = None
    against: str = ""
    arrow: str = ""
    paper: float | str | None = None
    of: Mapping[str, float] = field(default_factory=dict)
    best: bool = False
    form: str = ""  # of the figures, as in a format string

    @property
    def paper_text(self) -> str:
        """The paper's figure as it is shown, in as many decimals as ours."""
        if self.paper is None or isinstance(self.paper, str):
            return self.paper or ""
        return format(self.paper, self.form)

    def record(self) -> dict[str, Any]:
        """For scripts: what there is to say."""
        said = {"p": self.p, "against": self.against, "arrow": self.arrow, "paper": self.paper, "of": dict(self.of)}
        return {
            "text": self.text,
            "value": self.value,
            **{name: what for name, what in said.items() if what or what == 0},
        }


def plain(text: str) -> Cell:
    """A cell that is a name or a remark."""
    return Cell(text, text)


def number(value: float | None, form: str, paper: float | str | None = None) -> Cell:
    """form: as in a format string, for instance .2f"""
    text = MISSING if value is None else format(value, form)
    return Cell(text, value, paper=paper, form=form)


def not_done(stages: Sequence[str]) -> tuple[str, ...]:
    """The note on dashes; it names the first of the stages that are missing."""
    names = list(dict.fromkeys(stages))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (f"{MISSING}: not done ({', '.join(names[:_NAMED])}{more}).",) if names else ()


def count(value: int | None, paper: float | str | None = None) -> Cell:
    return number(value, ",", paper)


@dataclass(frozen=True)
class Table:
    """kind: one of npda.reproduce.tables.tables.TABLES; name: its own among those of a report, fit for a file"""

    kind: str
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> list[Cell]:
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def record(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "kind": self.kind,
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": [
                {column: cell.record() for column, cell in zip(self.columns, row, strict=True)} for row in self.rows
            ],
            "notes": list(self.notes),
        }
