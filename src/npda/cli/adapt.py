"""npda adapt: a model, a domain's text, and proof that it got better, in one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import (
    AsJson,
    Decodes,
    Device,
    Language,
    Licence,
    Quiet,
    Ray,
    SourceLanguage,
    UnchangedModel,
    Unguarded,
    Verbose,
    WorkerCpus,
    WorkerGpus,
    shows_progress,
    workers_for,
)
from npda.io.errors import InputError
from npda.io.files import check_file
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from npda.adapt.results import Adaptation
    from npda.evaluation.significance import Comparison
    from npda.evaluation.tuning.objective import Outcome


def adapt(
    model: UnchangedModel,
    text: Annotated[Path, typer.Option(help="Text of the domain: a TSV with src_text and tgt_text (.gz too).")],
    dev: Annotated[Path, typer.Option(help="Held-out sentences to tune on: a manifest of speech, or pairs.")],
    out: Annotated[Path, typer.Option(help="Directory for the store and the results; an interrupted run resumes.")],
    test: Annotated[
        Path | None, typer.Option(help="Other held-out sentences to test on: a manifest of speech, or pairs.")
    ] = None,
    general_test: Annotated[
        Path | None,
        typer.Option(
            help="General sentences to measure the price by: a manifest or pairs "
            "[default: --general-dev, or those held out of the counter-store]."
        ),
    ] = None,
    triplets: Annotated[
        list[Path] | None, typer.Option(help="General speech with transcripts and translations (manifest), to align.")
    ] = None,
    general_dev: Annotated[list[Path] | None, typer.Option(help="Dev manifest that goes with --triplets.")] = None,
    general_text: Annotated[
        list[Path] | None, typer.Option(help="More general text of the spoken language, as `npda align --text`.")
    ] = None,
    speak: Annotated[
        str | None, typer.Option(help="Voice that reads the text aloud instead of aligning: espeak:en-us.")
    ] = None,
    aligned: Annotated[
        Path | None, typer.Option(help="Directory of the aligned model, kept for other domains [default: the cache].")
    ] = None,
    language: Language = None,
    source_language: SourceLanguage = None,
    index: Annotated[str, typer.Option(help="Index of the store, as `npda build --index`.")] = "auto",
    beam: Annotated[int, typer.Option(min=1, help="Beam size that translation will use.")] = 5,
    decodes: Decodes = 10,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive", help="Train a network on dev that chooses k and λ for every token; used if it wins there."
        ),
    ] = False,
    unguarded: Unguarded = False,
    licence: Licence = "",
    ray: Ray = None,
    worker_cpus: WorkerCpus = None,
    worker_gpus: WorkerGpus = None,
    as_json: AsJson = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Adapt a speech translator to a domain with its text, and measure the gain.

    Teaches the model to read, if it cannot yet (once per model and language; the next domain reuses it); drops pairs
    that would leak dev or test sentences; builds the datastore; chooses k, λ and T on dev; and compares with the model
    alone by paired bootstrap, on test if you give one, and on general sentences, where the store should change nothing.
    It reports whatever got worse. A second call does only what is missing or has changed. With --ray the machines of a
    cluster make the store; see docs/scaling-out.md.

    Examples:

        npda adapt --model runs/demo/model --text runs/demo/data/domain.tsv \\
            --dev runs/demo/data/domain-dev.tsv --out adapted

        npda adapt --model runs/demo/model --text runs/demo/data/domain.tsv \\
            --dev runs/demo/data/dev.tsv --test runs/demo/data/test.tsv --adaptive --out tested

        npda adapt --model runs/demo/model --text runs/demo/data/domain.tsv \\
            --dev runs/demo/data/domain-dev.tsv --speak espeak:en-us --out spoken --json

        npda adapt --model openai/whisper-base --source-language German --triplets general.tsv \\
            --general-dev general-dev.tsv --general-text german.txt --text domain.tsv --dev dev.tsv --out whisper
    """
    optional = [path for path in (test, general_test) if path is not None]
    for path in (text, dev, *optional, *(triplets or []), *(general_dev or []), *(general_text or [])):
        check_file(path)
    if bool(triplets) != bool(general_dev):
        raise InputError("--triplets and --general-dev go together: speech to align on, and to choose the weights by.")

    hire = workers_for(ray, worker_cpus, worker_gpus, device)

    from npda.adapt.adapt import AdaptOptions, Inputs
    from npda.adapt.adapt import adapt as run
    from npda.adapt.text_path import TextPath
    from npda.decoding.beam import SearchOptions

    options = AdaptOptions(
        text_path=TextPath(tuple(triplets or ()), tuple(general_dev or ()), tuple(general_text or ()), aligned),
        speak=speak,
        language=language,
        source_language=source_language,
        index=index,
        search=SearchOptions(beam),
        decodes=decodes,
        adaptive=adaptive,
        unguarded=unguarded,
        hire=hire,
        licence=licence,
    )
    inputs = Inputs(model, text, dev, out, test, general_test)
    found = run(inputs, options, progress=shows_progress(quiet, verbose, as_json))
    if as_json:
        print(json.dumps(found.record(), ensure_ascii=False))
    else:
        _print(found)


def _print(found: Adaptation) -> None:
    from rich.table import Table

    columns = ("sentences", "system", "BLEU", "chrF", "length", "cut short", "empty", "loops", "copies", "invented")
    table = Table(*columns, title="gain and price", padding=(0, 0))
    for side in found.sides:
        on = found.on if side.side == "domain" else "general"
        voice = f", {found.voice}" if found.voice and side.way == "speech" else ""
        table.add_row(f"{on} ({side.sentences}, {side.way}{voice})", "model alone", *_figures(side.alone))
        scores = [_changed(c) for c in side.comparisons]
        table.add_row("", "adapted", *scores, *_figures(side.adapted)[2:], end_section=True)
    console = open_console(highlight=False)
    console.print(table)
    for line in _lines(found):
        console.print(line, soft_wrap=True)


def _figures(outcome: Outcome) -> list[str]:
    faults = outcome.faults
    counts = (faults.cut_short, faults.empty, faults.looping, faults.copies, faults.invented)
    return [f"{outcome.bleu:.2f}", f"{outcome.chrf:.2f}", f"{faults.length_ratio:.2f}", *map(str, counts)]


def _changed(c: Comparison) -> str:
    """A score with its difference from that of the model alone."""
    return f"{c.value:.2f} ({c.delta:+.2f}, p {c.p_value:.3f})" if c.delta else f"{c.value:.2f}"


def _lines(found: Adaptation) -> list[str]:
    best, taught = found.tuning.best, {"now": ", taught to read now", "before": ", taught to read before", "no": ""}
    lines = [
        *map(str, found.comparisons),
        *found.warnings,
        f"model: {found.model}{taught[found.aligned]}",
        f"store: {found.store}, {found.keys:,} keys of {found.dropped.kept:,} pairs ({found.kind})",
        f"k {best.k}, λ {best.lambda_:g}, T {best.temperature:g}, length penalty {found.tuning.length_penalty:g}, "
        f"tuned on {found.tuning.sentences} dev sentences ({found.tuning.way}) and kept in the store",
    ]
    if found.adaptive:
        lines.append("k and λ are chosen token by token, by a network trained on these sentences and kept in the store")
    elif found.learned:
        held_out, constants = (found.learned[name] for name in ("held_out", "constants"))
        lines.append(
            "The network that chooses k and λ token by token is left out: on held-out folds of dev it gave "
            f"{held_out['bleu']} BLEU and {held_out['chrf']} chrF, one k and λ "
            f"{constants['bleu']} and {constants['chrf']}."
        )
    if best.lambda_ == 0 and not found.adaptive:
        lines.append("The datastore does not help on these sentences: λ is 0, the model alone.")
    if found.dropped.leaks:
        lines.append(f"{found.dropped.leaks:,} pairs left out because they leak held-out sentences: {found.leaks}")
    if len(found.sides) == 1:
        lines.append("What the store costs elsewhere was not measured: give general sentences with --general-test.")
    lines.append(f"all translations: {found.store.parent / 'translations'}")
    if found.on == "dev":
        lines.append("Measured on the sentences that the store was tuned on; add --test for figures on new sentences.")
    if found.way == "text":
        lines.append("Measured on text, because no speech was given; the gain on speech may differ.")
    lines.append("seconds: " + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in found.seconds.items()))
    if found.found:
        lines.append("found from an earlier call: " + ", ".join(found.found))
    return [*lines, "", "next:", *(f"  {command}" for command in found.next_commands)]
