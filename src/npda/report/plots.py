"""Pictures for reports: one style, as SVG that takes the page's colours or as PNG for a file of its own."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from npda.explanation.wording import clean
from npda.io.files import atomic_write

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

# The page's colours by day; inside it they become its variables, which know of the night.
PALETTE = {
    "ink": "#1c1b19", "soft": "#5d5a55", "line": "#e2ded7", "card": "#ffffff", "model": "#1d5fb4", "store": "#a84300",
    "both": "#4b5b52", "store-tint": "#fdead9",
}  # fmt: skip
INK, SOFT, LINE, STORE = (PALETTE[name] for name in ("ink", "soft", "line", "store"))
WIDTH, HEIGHT = 5.4, 3.6  # inches of a picture

# Not of the palette, since a map and the boxes on it look the same by day and night.
_HEAT = ("#f4eee4", "#f2b57c", "#a84301")
_BOX, _BOX_INK, _BOX_EDGE = "#fffdfb", "#1c1b1a", "#b9b3a9"

Draw = Callable[["Axes"], None]


def svg(draw: Draw, title: str, size: tuple[float, float] = (WIDTH, HEIGHT)) -> str:
    """A picture of one pair of axes. title: makes its ids its own; size: in inches"""
    content = io.StringIO()
    with _drawn(draw, title, size) as figure:
        # Nothing that differs from run to run, and no words about the program that drew it.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(content, format="svg", transparent=True, metadata=nothing)
    return content.getvalue()


def save_png(draw: Draw, path: str | Path, size: tuple[float, float] = (WIDTH, HEIGHT)) -> None:
    """The same as a file."""
    with _drawn(draw, "", size) as figure, atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png", facecolor=PALETTE["card"])


@contextmanager
def _drawn(draw: Draw, title: str, size: tuple[float, float]) -> Iterator[Figure]:
    """The settings hold while the caller saves: SVG looks them up only then."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": title, "font.size": 10, "axes.titlesize": "medium",
        "text.color": INK, "axes.labelcolor": SOFT, "axes.edgecolor": LINE, "xtick.color": SOFT,
        "ytick.color": SOFT, "grid.color": LINE, "axes.axisbelow": True,
        "text.parse_math": False,  # names come from outside, and a dollar is a dollar
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", linewidth=0.7)
        draw(axes)
        yield figure


def inline(picture: str, prefix: str, title: str) -> Markup:
    """For a page: its variables instead of colours, ids of its own, and a title for readers who cannot see it."""
    picture = picture[picture.index("<svg") :]
    for name, colour in PALETTE.items():
        picture = picture.replace(colour, f"var(--{name})")
    picture = re.sub(r'(\bid="|xlink:href="#|url\(#)', lambda found: f"{found[1]}{escape(prefix)}-", picture)
    picture = picture.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    return Markup("\n".join(map(clean, picture.split("\n"))))  # noqa: S704 (drawn here, with titles escaped)


def system_colour(name: str) -> str:
    """Text stores in the colour of the store, kNN-MT, which has recordings, in blue, all others in grey."""
    return PALETTE["store" if name.startswith("NPDA") else "model" if name == "kNN-MT" else "both"]


def beside(axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """A text near a point. offset: in points of the font"""
    style = {"ha": "center", "color": INK, **style}
    axes.annotate(text, point, offset, textcoords="offset points", **style)


def heat_map(axes: Axes, values: np.ndarray, columns: Sequence[str], rows: Sequence[str], low: float) -> QuadMesh:
    """Fields in the colour of their value. values: [rows, columns]; low: what is smaller looks the same"""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("heat", _HEAT, 24)
    mesh = axes.pcolormesh(values, cmap=colours, vmin=low, edgecolors=PALETTE["card"], linewidth=1.2)
    axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
    axes.set_yticks([y + 0.5 for y in range(len(rows))], rows)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    return mesh


def boxed(axes: Axes, text: str, column: int, row: int, chosen: bool = False) -> None:
    """A text in a field of a heat map, on a white of its own so that it can be read on every colour."""
    edge, width = (_BOX_INK, 1.8) if chosen else (_BOX_EDGE, 0.6)
    axes.annotate(
        text,
        (column + 0.5, row + 0.5),
        ha="center",
        va="center",
        fontsize=8,
        color=_BOX_INK,
        fontweight="bold" if chosen else "normal",
        bbox={"boxstyle": "round,pad=0.25", "facecolor": _BOX, "edgecolor": edge, "linewidth": width},
    )
