"""The pictures of a demonstration: systems side by side, and BLEU over the size of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npda.demo.results import BASE, KNN_MT, NPDA, CurvePoint, SystemResult
from npda.report.plots import INK, STORE, beside, svg, system_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def systems_plot(systems: dict[str, SystemResult]) -> str:
    """Two groups of bars: BLEU on everyday talk and on parliament."""

    def draw(axes: Axes) -> None:
        for place, (name, system) in enumerate(systems.items()):
            at = np.arange(2) + (place - (len(systems) - 1) / 2) * 0.21
            heights = [system.domain, system.general]
            # Guarded or not, it is the same store.
            axes.bar(at, heights, 0.19, color=system_colour(name), label=name, alpha=0.5 if name == NPDA else 1)
            for x, height in zip(at, heights, strict=True):
                beside(axes, f"{height:.1f}", (x, height), (0, 3))
        axes.set_xticks([0, 1], ["parliament", "everyday talk"])
        axes.set_ylabel("BLEU")
        axes.set_ylim(0, 1.12 * max(1.0, *(max(s.general, s.domain) for s in systems.values())))
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, 1.24), ncols=2, handlelength=1, frameon=False, labelcolor=INK
        )
        axes.tick_params(axis="x", length=0, labelcolor=INK)

    return svg(draw, "BLEU of the systems on both tests")


def curve_plot(curve: tuple[CurvePoint, ...], systems: dict[str, SystemResult]) -> str:
    """BLEU on parliament over the pairs in the store, between base model and speech datastore."""

    def draw(axes: Axes) -> None:
        pairs = [point.pairs for point in curve]
        axes.plot(pairs, [point.bleu for point in curve], color=STORE, marker="o", linewidth=2)
        for point in curve:
            beside(axes, f"{point.bleu:.1f}", (point.pairs, point.bleu), (0, -15))
        # Each name stands where the curve is far away.
        for name, style, place, side in ((BASE, ":", pairs[-1], "right"), (KNN_MT, "--", pairs[0], "left")):
            level, colour = systems[name].domain, system_colour(name)
            axes.axhline(level, color=colour, linestyle=style, linewidth=1.2)
            beside(axes, name, (place, level), (0, 4), ha=side, color=colour)
        axes.set_xscale("log", base=2)
        axes.set_xticks(pairs, [f"{count:,}" for count in pairs])
        axes.minorticks_off()
        axes.set_xlabel("sentence pairs from parliament")
        axes.set_ylabel("BLEU on parliament")
        axes.set_ylim(0, 1.15 * max(1.0, *(point.bleu for point in curve), *(s.domain for s in systems.values())))
        axes.margins(x=0.09)

    return svg(draw, "BLEU over the size of the datastore")
