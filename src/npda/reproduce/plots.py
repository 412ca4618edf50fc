"""The pictures of a report: systems as bars, BLEU over the size of the datastore, speed as a map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from npda.report.plots import INK, PALETTE, WIDTH, beside, boxed, heat_map, inline, svg, system_colour
from npda.report.table import Table
from npda.reproduce.tables.score_cells import AVERAGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 0.27  # inches of a bar
_CURVES = ("store", "model", "both", "ink", "soft")


def pictures(table: Table) -> list[Markup]:
    """For the page; none for tables that tell more as they are."""
    match table.kind:
        case "adaptation" | "cascade":
            drawn = bars(table)
        case "datastore-size":
            drawn = curve(table)
        case "speed":
            drawn = speed_map(table)
        case _:
            drawn = None
    return [inline(drawn, table.name, table.title)] if drawn else []


def bars(table: Table) -> str | None:
    """A bar for each system, in the order of the table; the paper's figure as a stroke."""
    before = table.columns.index("Δ")
    column = AVERAGE if AVERAGE in table.columns else table.columns[before - 1]
    found = [
        (str(name.value), score)
        for name, score in zip(table.column("system"), table.column(column), strict=True)
        if score.value is not None
    ]
    if not found:
        return None

    def draw(axes: Axes) -> None:
        for place, (name, score) in enumerate(reversed(found)):
            axes.barh(place, score.value, 0.7, color=system_colour(name))
            shown = f"{score.text} {score.arrow}".strip()
            beside(axes, shown, (score.value, place), (4, 0), ha="left", va="center")
            if isinstance(score.paper, float):
                axes.plot([score.paper] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1.6)
        axes.set_yticks(range(len(found)), [name for name, _ in reversed(found)])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.grid(axis="y", visible=False)
        axes.grid(axis="x", linewidth=0.7)
        axes.set_xlim(0, 1.15 * max(1.0, *(score.value for _, score in found)))
        axes.set_xlabel(f"BLEU, {column}")

    return svg(draw, table.name, (WIDTH, 0.9 + _BAR * len(found)))


def curve(table: Table) -> str | None:
    """A line for each direction and language."""
    series = list(_series(table))
    if not series:
        return None

    def draw(axes: Axes) -> None:
        for number, (label, points) in enumerate(series):
            colour = PALETTE[_CURVES[number % len(_CURVES)]]
            style = ("-", "--", ":")[number // len(_CURVES) % 3]
            fractions, scores = zip(*points, strict=True)
            axes.plot(fractions, scores, color=colour, linestyle=style, marker="o", linewidth=2, label=label)
            if len(series) == 1:
                for point in points:
                    beside(axes, f"{point[1]:.1f}", point, (0, 7))
        axes.set_xlabel("share of the text")
        axes.set_ylabel("BLEU")
        axes.margins(x=0.07, y=0.2)
        axes.legend(frameon=False, labelcolor=INK, ncols=2 if len(series) > 4 else 1)

    return svg(draw, table.name)


def _series(table: Table) -> Iterator[tuple[str, Sequence[tuple[float, float]]]]:
    points: dict[str, list[tuple[float, float]]] = {}
    for direction, language, fraction, _, _, score in table.rows:
        if score.value is not None:
            label = f"{direction.text} {language.text}" if direction.text != language.text else language.text
            points.setdefault(label, []).append((fraction.value, score.value))
    yield from points.items()


def speed_map(table: Table) -> str | None:
    """k × batch, the ratio as colour and number."""
    rows = [row for row in table.rows if isinstance(row[0].value, int)]
    if not rows:
        return None

    def draw(axes: Axes) -> None:
        values = np.array([[cell.value for cell in row[1:]] for row in rows], dtype=float)
        batches = [column.removeprefix("batch ") for column in table.columns[1:]]
        heat_map(axes, values, batches, [row[0].text for row in rows], low=1.0)
        for y, row in enumerate(rows):
            for x, cell in enumerate(row[1:]):
                boxed(axes, cell.text, x, y)
        axes.set_xlabel("sentences per batch")
        axes.set_ylabel("k")

    return svg(draw, table.name, (WIDTH, 2.8))
