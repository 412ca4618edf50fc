"""npda adapt: a model, a domain's text, and proof that it got better, in one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.io.errors import InputError

if TYPE_CHECKING:
    from npda.adapt.results import Adaptation


def adapt(
    model: Annotated[str, typer.Option(help="Model directory, or name on the hub; it is not changed.")],
    text: Annotated[Path, typer.Option(help="The domain: pairs, a TSV with src_text and tgt_text (.gz too).")],
    dev: Annotated[Path, typer.Option(help="Held-out sentences to tune on: a manifest of speech, or pairs.")],
    out: Annotated[Path, typer.Option(help="Directory for the store and what was found out; interrupted, it goes on.")],
    test: Annotated[Path | None, typer.Option(help="Others to judge by: a manifest of speech, or pairs.")] = None,
    triplets: Annotated[
        list[Path] | None, typer.Option(help="General speech with transcripts and translations (manifest), to align.")
    ] = None,
    general_dev: Annotated[list[Path] | None, typer.Option(help="Dev manifest of the same, to align.")] = None,
    general_text: Annotated[
        list[Path] | None, typer.Option(help="More general text of the spoken language, as `npda align --text`.")
    ] = None,
    speak: Annotated[
        str | None, typer.Option(help="Voice that reads the text aloud instead of aligning: espeak:en-us.")
    ] = None,
    aligned: Annotated[
        Path | None, typer.Option(help="Where the aligned model is kept and found [default: in the cache].")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Target language, for models with several.")] = None,
    source_language: Annotated[str | None, typer.Option(help="Spoken language, for models with several.")] = None,
    index: Annotated[str, typer.Option(help="Of the store, as `npda build --index`.")] = "auto",
    beam: Annotated[int, typer.Option(min=1, help="Beam size of the search to tune for.")] = 5,
    decodes: Annotated[int, typer.Option(min=1, help="How many settings tuning tries out by decoding.")] = 8,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Train a network on dev that chooses k and λ token by token.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Adapt a speech translator to a domain with its text, from the model to the proof.

    Teaches the model to read, if it cannot yet (once per model and language, the next domain finds it again); leaves
    out pairs of the text that would give away dev or test sentences; builds the datastore; chooses k, λ and T on dev;
    and compares with the model alone by paired bootstrap, on test if there is one. Called again, it does only what is
    missing or has changed.

    Examples:

        npda adapt --model runs/base --triplets general.tsv --general-dev general-dev.tsv \\
            --text domain.tsv --dev dev.tsv --test test.tsv --out adapted

        npda adapt --model openai/whisper-base --source-language de --triplets general.tsv --general-dev dev.tsv \\
            --general-text german.txt --text domain.tsv --dev domain-dev.tsv --adaptive --out adapted

        npda adapt --model runs/base --text legal.tsv --dev legal-dev.tsv --out legal

        npda adapt --model runs/base --text domain.tsv --dev dev.tsv --speak espeak:en-us --out spoken --json
    """
    for path in (text, dev, *([test] if test else []), *(triplets or []), *(general_dev or []), *(general_text or [])):
        if not path.is_file():
            raise InputError(f"There is no file {path}.")
    if bool(triplets) != bool(general_dev):
        raise InputError("--triplets and --general-dev go together: speech to align on, and to choose the weights by.")

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
    )
    found = run(Inputs(model, text, dev, out, test), options, progress=not as_json)
    if as_json:
        print(json.dumps(found.record(), ensure_ascii=False))
    else:
        _print(found)


def _print(found: Adaptation) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    way = f"{found.way}, read by {found.voice}" if found.voice and found.way == "speech" else found.way
    table = Table(
        "metric", "model alone", "adapted", "Δ", "p", title=f"{found.on}: {found.sentences} sentences ({way})"
    )
    for c in found.comparisons:
        scores = (f"{c.baseline_value:.2f}", f"{c.value:.2f}", f"{c.delta:+.2f}")
        table.add_row(c.metric, *scores, f"{c.p_value:.4f}" if c.delta else "–")
    console.print(table)
    for line in _lines(found):
        console.print(line, markup=False, soft_wrap=True)


def _lines(found: Adaptation) -> list[str]:
    best, taught = found.tuning.best, {"now": ", taught to read now", "before": ", taught to read before", "no": ""}
    lines = [
        *map(str, found.comparisons),
        f"model: {found.model}{taught[found.aligned]}",
        f"store: {found.store}, {found.keys:,} keys of {found.dropped.kept:,} pairs ({found.kind})",
        f"k {best.k}, λ {best.lambda_:g}, T {best.temperature:g}, tuned on {found.tuning.sentences} dev sentences "
        f"({found.tuning.way}) and kept in the store",
    ]
    if found.adaptive:
        lines.append("k and λ are chosen token by token, by a network trained on these sentences and kept in the store")
    elif best.lambda_ == 0:
        lines.append("The datastore does not help on these sentences: λ is 0, the model alone.")
    if found.dropped.leaks:
        lines.append(f"{found.dropped.leaks:,} pairs left out, as they give away held-out sentences: {found.leaks}")
    if found.on == "dev":
        lines.append(
            "Measured on the sentences it was tuned on: with --test the figures would be those to be expected."
        )
    if found.way == "text":
        lines.append("Measured on text, as no speech was given: how much is gained on speech, speech would tell.")
    lines.append("seconds: " + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in found.seconds.items()))
    if found.found:
        lines.append("found from an earlier call: " + ", ".join(found.found))
    return [*lines, "", "next:", *(f"  {command}" for command in found.next_commands)]
