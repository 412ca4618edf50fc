"""The report of a demonstration: one HTML page, and beside it the page that explains every word of the examples."""

from __future__ import annotations

from markupsafe import Markup

from npda.demo.plots import curve_plot, systems_plot
from npda.demo.results import BASE, GUARDED, KNN_MT, NPDA, DemoReport, marked
from npda.demo.terms import LIST
from npda.io.files import atomic_write
from npda.report.explanation import write_page
from npda.report.page import render
from npda.report.plots import inline
from npda.report.tuning_plot import tuning_svg, tuning_title


def write_report(report: DemoReport) -> None:
    """Write the report, and beside it the page on which every word of the examples is explained."""
    page = render(
        "demo.html",
        title="A speech translator goes to parliament",
        report=report,
        base=report.systems[BASE],
        npda=report.systems[NPDA],
        guarded=report.systems[GUARDED],
        upper=report.systems[KNN_MT],
        names={"base": BASE, "npda": NPDA, "guarded": GUARDED, "upper": KNN_MT},
        pictures=_pictures(report),
        marked=marked,
        listed_terms=LIST,
        p_value=p_value,
        stage_name=stage_name,
    )
    # A path that is not UTF-8 reaches us with lone surrogates, which could not be written.
    with atomic_write(report.page) as temporary:
        temporary.write_text(page, encoding="utf-8", errors="replace")
    with atomic_write(report.why) as temporary, open(temporary, "w", encoding="utf-8", errors="replace") as stream:
        write_page(report.explanations, stream, "Five sentences from parliament, word by word")


def _pictures(report: DemoReport) -> dict[str, Markup]:
    return {
        "systems": inline(systems_plot(report.systems), "systems", "BLEU of the systems on both tests"),
        "curve": inline(curve_plot(report.curve, report.systems), "curve", "BLEU over the size of the datastore"),
        "map": inline(tuning_svg(report.tuning), "map", tuning_title(report.tuning)),
    }


def stage_name(stage: str) -> str:
    return stage.replace("_", " ")


def p_value(p: float) -> str:
    """As a table shows it; a thousand resamples do not tell smaller ones apart."""
    return "< 0.001" if p <= 0.001 else f"{p:.3f}"
