"""The pictures of a demonstration: systems side by side, the λ × T map, BLEU over the size of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npda.demo.results import BASE, KNN_MT, CurvePoint, SystemResult
from npda.evaluation.tuning.search import Tuning
from npda.report.plots import INK, PALETTE, STORE, heat, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def systems_plot(systems: dict[str, SystemResult]) -> str:
    """Two groups of bars: BLEU on everyday talk and on parliament."""

    def draw(axes: Axes) -> None:
        colours = dict(zip(systems, (PALETTE["both"], PALETTE["store"], PALETTE["model"]), strict=True))
        for place, (name, system) in enumerate(systems.items()):
            at = np.arange(2) + (place - 1) * 0.27
            heights = [system.domain, system.general]
            axes.bar(at, heights, 0.25, color=colours[name], label=name)
            for x, height in zip(at, heights, strict=True):
                axes.annotate(f"{height:.1f}", (x, height), (0, 3), textcoords="offset points", ha="center")
        axes.set_xticks([0, 1], ["parliament", "everyday talk"])
        axes.set_ylabel("BLEU")
        axes.set_ylim(0, 1.12 * max(1.0, *(max(s.general, s.domain) for s in systems.values())))
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=3, handlelength=1, frameon=False, labelcolor=INK
        )
        axes.tick_params(axis="x", length=0, labelcolor=INK)

    return svg(draw, "BLEU of the systems on both tests")


def map_plot(tuning: Tuning) -> str:
    """Log-likelihood of dev references over λ and T for the best k; BLEU where it was decoded."""

    def draw(axes: Axes) -> None:
        plane = tuning.plane(tuning.best.k)
        lambdas = sorted({lambda_ for lambda_, _ in plane})
        temperatures = sorted({temperature for _, temperature in plane})
        values = np.array([[plane[lambda_, temperature] for temperature in temperatures] for lambda_ in lambdas])
        # Where the store hurts badly, the map need not tell how badly.
        low = float(np.quantile(values, 0.15))
        mesh = axes.pcolormesh(values, cmap=heat(), vmin=low, edgecolors=PALETTE["card"], linewidth=1.2)
        axes.set_xticks(np.arange(len(temperatures)) + 0.5, [f"{t:g}" for t in temperatures])
        axes.set_yticks(np.arange(len(lambdas)) + 0.5, [f"{lambda_:g}" for lambda_ in lambdas])
        axes.tick_params(length=0)
        axes.set_xlabel("temperature T")
        axes.set_ylabel("λ")
        axes.grid(False)
        axes.spines[:].set_visible(False)
        bar = axes.figure.colorbar(mesh, ax=axes, label="log-likelihood a token", extend="min")
        assert bar.solids is not None
        bar.solids.set_edgecolor("face")
        bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
        for decoded in tuning.decoded:
            options = decoded.options
            if options.k != tuning.best.k:
                continue
            chosen = options == tuning.best
            box = {"boxstyle": "round,pad=0.25", "facecolor": "#fffdfb",
                   "edgecolor": "#1c1b1a" if chosen else "#b9b3a9", "linewidth": 1.8 if chosen else 0.6}  # fmt: skip
            place = temperatures.index(options.temperature) + 0.5, lambdas.index(options.lambda_) + 0.5
            axes.annotate(
                f"{decoded.bleu:.1f}",
                place,
                ha="center",
                va="center",
                fontsize=8,
                color="#1c1b1a",  # on its own white, by day and night
                fontweight="bold" if chosen else "normal",
                bbox=box,
            )

    return svg(draw, f"λ × T map for k = {tuning.best.k}")


def curve_plot(curve: tuple[CurvePoint, ...], systems: dict[str, SystemResult]) -> str:
    """BLEU on parliament over the pairs in the store, between base model and speech datastore."""

    def draw(axes: Axes) -> None:
        pairs = [point.pairs for point in curve]
        axes.plot(pairs, [point.bleu for point in curve], color=STORE, marker="o", linewidth=2)
        for point in curve:
            axes.annotate(
                f"{point.bleu:.1f}", (point.pairs, point.bleu), (0, -15), textcoords="offset points", ha="center"
            )
        for name, colour, style in ((BASE, PALETTE["both"], ":"), (KNN_MT, PALETTE["model"], "--")):
            level = systems[name].domain
            axes.axhline(level, color=colour, linestyle=style, linewidth=1.2)
            axes.annotate(name, (pairs[0], level), (0, 4), textcoords="offset points", color=colour)
        axes.set_xscale("log", base=2)
        axes.set_xticks(pairs, [f"{count:,}" for count in pairs])
        axes.minorticks_off()
        axes.set_xlabel("sentence pairs of parliament")
        axes.set_ylabel("BLEU on parliament")
        axes.set_ylim(0, 1.15 * max(1.0, *(point.bleu for point in curve), *(s.domain for s in systems.values())))
        axes.margins(x=0.09)

    return svg(draw, "BLEU over the size of the datastore")
