"""The λ × T map of a tuning as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npda.evaluation.tuning.search import Tuning
from npda.io.files import atomic_write


def plot_tuning(tuning: Tuning, path: str | Path) -> None:
    """Log-likelihood over λ and T for the best k; boxes hold the BLEU of points that were decoded."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    k = tuning.best.k
    plane = tuning.plane(k)
    lambdas = sorted({lambda_ for lambda_, _ in plane})
    temperatures = sorted({temperature for _, temperature in plane})
    values = np.array([[plane[lambda_, temperature] for temperature in temperatures] for lambda_ in lambdas])

    figure = Figure(figsize=(1.6 + 0.9 * len(temperatures), 1.6 + 0.42 * len(lambdas)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # Where the store hurts badly, the map need not tell how badly.
    image = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis", vmin=np.quantile(values, 0.1))
    axes.set_xticks(range(len(temperatures)), [f"{temperature:g}" for temperature in temperatures])
    axes.set_yticks(range(len(lambdas)), [f"{lambda_:g}" for lambda_ in lambdas])
    axes.set_xlabel("temperature T")
    axes.set_ylabel("λ")
    axes.set_title(f"k = {k}: dev BLEU {tuning.base_bleu:.1f} → {tuning.bleu:.1f} ({tuning.way})", fontsize="medium")
    figure.colorbar(image, label="log-likelihood a token", extend="min")
    for decoded in tuning.decoded:
        options = decoded.options
        if options.k != k:
            continue
        place = temperatures.index(options.temperature), lambdas.index(options.lambda_)
        chosen = options == tuning.best
        axes.annotate(
            f"{decoded.bleu:.1f}",
            place,
            ha="center",
            va="center",
            fontsize="small",
            fontweight="bold" if chosen else "normal",
            bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "red" if chosen else "black",
                  "linewidth": 2.0 if chosen else 0.8},
        )  # fmt: skip
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
