"""The λ × T map of a tuning as a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from npda.evaluation.tuning.search import Tuning
from npda.report.plots import boxed, heat_map, save_png, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_tuning(tuning: Tuning, path: str | Path) -> None:
    """Write the map as PNG, under a title with the BLEU that tuning gained."""

    def draw(axes: Axes) -> None:
        _draw(axes, tuning)
        axes.set_title(f"k = {tuning.best.k}: dev BLEU {tuning.base_bleu:.1f} → {tuning.bleu:.1f} ({tuning.way})")

    plane = tuning.plane(tuning.best.k)
    lambdas, temperatures = (len({point[place] for point in plane}) for place in (0, 1))
    save_png(draw, path, (1.6 + 0.9 * temperatures, 1.6 + 0.42 * lambdas))


def tuning_svg(tuning: Tuning) -> str:
    """The map as SVG for a page."""
    return svg(lambda axes: _draw(axes, tuning), tuning_title(tuning))


def tuning_title(tuning: Tuning) -> str:
    return f"λ × T map for k = {tuning.best.k}"


def _draw(axes: Axes, tuning: Tuning) -> None:
    """Log-likelihood of the dev references over λ and T for the best k; BLEU of what the best search decoded."""
    k = tuning.best.k
    plane = tuning.plane(k)
    lambdas = sorted({lambda_ for lambda_, _ in plane})
    temperatures = sorted({temperature for _, temperature in plane})
    values = np.array([[plane[lambda_, temperature] for temperature in temperatures] for lambda_ in lambdas])
    # Where the store hurts badly, the map need not tell how badly.
    low = float(np.quantile(values, 0.15))
    mesh = heat_map(axes, values, [f"{t:g}" for t in temperatures], [f"{lambda_:g}" for lambda_ in lambdas], low)
    axes.set_xlabel("temperature T")
    axes.set_ylabel("λ")
    bar = axes.figure.colorbar(mesh, ax=axes, label="log-likelihood per token", extend="min")
    assert bar.solids is not None
    bar.solids.set_edgecolor("face")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    for decoded in tuning.decoded:
        options = decoded.options
        if replace(decoded.setting, knn=tuning.best) == tuning.setting and options.k == k:
            place = temperatures.index(options.temperature), lambdas.index(options.lambda_)
            boxed(axes, f"{decoded.bleu:.1f}", *place, chosen=decoded.setting == tuning.setting)
