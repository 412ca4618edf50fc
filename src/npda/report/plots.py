"""Pictures for the pages of reports: one style, as SVG that takes the page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

# The page's colours by day; inside it they become its variables, which know of the night.
PALETTE = {
    "ink": "#1c1b19", "soft": "#5d5a55", "line": "#e2ded7", "card": "#ffffff", "model": "#1d5fb4", "store": "#a84300",
    "both": "#4b5b52", "store-tint": "#fdead9",
}  # fmt: skip
INK, SOFT, LINE, STORE = (PALETTE[name] for name in ("ink", "soft", "line", "store"))
WIDTH, HEIGHT = 5.4, 3.6  # inches of a picture


def heat() -> Colormap:
    """From paper to the colour of the store."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("heat", ["#f4eee4", "#f2b57c", "#a84301"], 24)


def svg(draw: Callable[[Axes], None], title: str, size: tuple[float, float] = (WIDTH, HEIGHT)) -> str:
    """A picture of one pair of axes. title: makes its ids its own; size: in inches"""
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": title, "font.size": 10, "axes.titlesize": "medium",
        "text.color": INK, "axes.labelcolor": SOFT, "axes.edgecolor": LINE, "xtick.color": SOFT,
        "ytick.color": SOFT, "grid.color": LINE, "axes.axisbelow": True,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", linewidth=0.7)
        draw(axes)
        content = io.StringIO()
        # Nothing that differs from run to run, and no words about the program that drew it.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(content, format="svg", transparent=True, metadata=nothing)
    return content.getvalue()


def inline(picture: str, prefix: str, title: str) -> str:
    """For a page: its variables instead of colours, ids of its own, a title for who cannot see it."""
    picture = picture[picture.index("<svg") :]
    for name, colour in PALETTE.items():
        picture = picture.replace(colour, f"var(--{name})")
    picture = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{prefix}-", picture)
    return picture.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
