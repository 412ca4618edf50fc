"""npda demo: what the project is about, on the corpus that comes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import AsJson, Device, Quiet, Verbose, shows_progress
from npda.io.errors import InputError
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from rich.console import Console

    from npda.demo.results import DemoReport, ExplainedExample


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report, stores and results; finished parts are reused.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other sentences to translate.")] = 0,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Train the model in OUT instead of using the shipped one.")
    ] = False,
    as_json: AsJson = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Adapt a speech translator to parliament with nothing but text, and see what it gains, and why.

    Takes a small model of everyday talk, builds a datastore from the text of parliament, tunes it on text, translates
    speech of both domains, and compares the result with a datastore of real parliament speech. A list of terms is used
    beside the store. This takes two minutes on two cores, ten with --from-scratch. An interrupted run resumes.

    OUT/model and OUT/data then hold the model and the small files that the examples of the other verbs use.

    Examples:

        npda demo

        npda demo --seed 1 --json

        npda demo --from-scratch --out runs/scratch
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a directory with --out.")
    from npda.demo.demo import run_demo

    report = run_demo(out, seed, from_scratch, progress=shows_progress(quiet, verbose, as_json))
    if as_json:
        print(json.dumps(report.record(), ensure_ascii=False))
    else:
        _print(report)


def _print(report: DemoReport) -> None:

    from npda.demo.page import stage_name

    console = open_console(highlight=False)
    _print_systems(console, report)
    for line in _findings(report):
        console.print(line)
    console.print()
    for example in report.examples:
        _print_example(console, example)
    _print_terms(console, report)
    spent = ", ".join(f"{stage_name(stage)} {seconds:.1f}" for stage, seconds in report.seconds.items())
    console.print(f"seconds: {spent}; some side by side; {report.total:.0f} in all")
    if report.recalled:
        console.print("found from an earlier run: " + ", ".join(map(stage_name, report.recalled)))
    console.print(f"BLEU|{report.signature}", soft_wrap=True)
    places = {"report": report.page, "why": report.why, "model": report.model}
    for name, path in {**places, **{f"store of {name}": path for name, path in report.stores.items()}}.items():
        console.print(f"{name + ':':22} {path}", soft_wrap=True)
    console.print()
    for line in _summary(report):
        console.print(line)


def _summary(report: DemoReport) -> list[str]:
    """What it all means, for a newcomer."""
    from npda.demo.results import BASE, GUARDED

    base, guarded, use = report.systems[BASE], report.systems[GUARDED], report.terms
    return [
        f"In short: text alone took the translator from {base.domain:.1f} to {guarded.domain:.1f} BLEU in parliament. "
        f"Everyday talk went from {base.general:.1f} to {guarded.general:.1f}, with the same store on.",
        f"The list of terms was used in {use.used} of {use.said} places and changed {use.changed} of the "
        f"{use.sentences} sentences without them.",
        f"Next: open {report.page} in a browser; `npda serve` lets you speak yourself.",
    ]


def _print_systems(console: Console, report: DemoReport) -> None:
    from rich.table import Table

    from npda.demo.page import p_value
    from npda.demo.results import BASE, GUARDED

    table = Table(title="BLEU, English speech → German text; stores are left on for both")
    table.add_column("System")
    for name in ("general", "parliament", "Δ parliament", "p"):
        table.add_column(name, justify="right")
    base = report.systems[BASE].domain
    for name, system in report.systems.items():
        against = ["–", "–"]
        if system.p_vs_base is not None:
            against = [f"{system.domain - base:+.1f}", p_value(system.p_vs_base)]
        style = "bold" if name == GUARDED else None
        table.add_row(name, f"{system.general:.1f}", f"{system.domain:.1f}", *against, style=style)
    console.print(table)


def _findings(report: DemoReport) -> list[str]:
    from npda.demo.results import BASE, GUARDED, KNN_MT, NPDA

    base, npda, guarded, upper = (report.systems[name] for name in (BASE, NPDA, GUARDED, KNN_MT))
    best, spoken, alike = report.best, report.speech_tuning.best, report.similarity
    gated = report.guarded_tuning.best
    lines = [
        f"text alone, tuned on text: k {best.k}, λ {best.lambda_:g}, T {best.temperature:g}; "
        f"greedy {report.greedy:.1f}, beam {report.tuning.search.beam} {npda.domain:.1f}",
        f"tuned on speech instead: {report.speech_tuned:.1f} ({report.text_tuning_loss:+.1f}; k {spoken.k}, "
        f"λ {spoken.lambda_:g}, T {spoken.temperature:g})",
        f"missing to a store of real speech (kNN-MT): {upper.domain - npda.domain:.1f}",
        f"behind its gate: k {gated.k}, λ {gated.lambda_:g}, T {gated.temperature:g}; the store stays on for everyday "
        f"talk at a price of {report.price:.1f} BLEU ({base.general:.1f} → {guarded.general:.1f}), without the gate of "
        f"{report.price_unguarded:.1f} ({base.general:.1f} → {npda.general:.1f})",
        f"speech and text: cosine {alike['general'].cosine:.3f}, squared distance "
        f"{alike['general'].squared_distance:.1f} (general dev); {alike['parliament'].cosine:.3f}, "
        f"{alike['parliament'].squared_distance:.1f} (parliament dev)",
        "BLEU by share of the text: " + ", ".join(f"{p.fraction:g} {p.bleu:.1f}" for p in report.curve),
    ]
    if report.dropped:
        lines.append(f"{report.dropped} sentences left out, as the model was trained on them")
    return lines


def _print_example(console: Console, example: ExplainedExample) -> None:
    from rich.text import Text

    from npda.demo.results import marked

    console.print(f"said     {example.said}")
    console.print(f"base     {example.base}")
    adapted = Text(f"adapted  {example.adapted}")
    if example.word:
        adapted.highlight_words([example.word], "bold")
    if example.adapted == example.reference:
        adapted.append("  ✓", "green")
    console.print(adapted)
    if example.adapted != example.reference:
        console.print(f"correct  {example.reference}")
    if (e := example.because) is not None:
        because = Text(f"because  {e.source_text} → ")
        before, word, after = marked(e)
        because.append(before).append(word, "bold").append(after)
        console.print(because)
    console.print()


def _print_terms(console: Console, report: DemoReport) -> None:
    from rich.text import Text

    from npda.demo.terms import LIST

    use = report.terms
    listed = ", ".join(f"{term.source} → {term.target}" for term in LIST)
    console.print(
        f"terms    {listed}: written as wanted in {use.used} of {use.said} places, without the list in {use.before}; "
        f"of the {use.sentences} sentences without them {use.changed} changed",
        markup=False,
    )
    for example in use.examples:
        console.print(f"said     {example.said}")
        console.print(f"without  {example.found.text}")
        with_list = Text(f"with     {example.found.placed}")
        with_list.highlight_words(example.found.targets, "bold")
        console.print(with_list)
    console.print()
