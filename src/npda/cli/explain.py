"""npda explain: why every word of a translation is what it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import (
    Adaptive,
    Audio,
    Beam,
    Device,
    K,
    Lambda,
    Language,
    MaxLength,
    Model,
    Precision,
    Quiet,
    SourceLanguage,
    Temperature,
    TunedLengthPenalty,
    Unguarded,
    Verbose,
    loading,
    shows_progress,
)
from npda.cli.translate import check_choices
from npda.io.errors import InputError
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from npda.explanation.records import Explanation


def explain(
    audio: Audio,
    model: Model,
    store: Annotated[
        list[Path], typer.Option(help="Datastore that steers, or a folder of them; repeat it for several.")
    ],
    terms: Annotated[list[Path] | None, typer.Option(help="Terms to use, as for `npda translate`.")] = None,
    unguarded: Unguarded = False,
    k: K = None,
    lambda_: Lambda = None,
    temperature: Temperature = None,
    adaptive: Adaptive = False,
    beam: Beam = 5,
    length_penalty: TunedLengthPenalty = None,
    max_length: MaxLength = 200,
    language: Language = None,
    source_language: SourceLanguage = None,
    html: Annotated[Path | None, typer.Option(help="HTML page to write; the one file is all it needs.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, and no progress.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show why every word of a translation was chosen.

    For each word: the probability that the model alone gives it, the probability that its nearest neighbours in the
    datastore give it, and the sentences these neighbours come from, with the word marked. The table shows the
    neighbour with the largest weight; --html and --json show the others as well, and how far the gate of each store was
    open. Settings are those that each store was tuned to, as for `npda translate`.

    A file that cannot be read is reported and skipped, and the exit code is then 2.

    Examples:

        npda explain runs/demo/data/speech.wav --model runs/demo/model \\
            --store runs/demo/stores/parliament-text

        npda explain runs/demo/data/speech.wav --model runs/demo/model \\
            --store runs/demo/stores/parliament-text --html why.html

        npda explain runs/demo/data/test.tsv --model runs/demo/model \\
            --store runs/demo/stores/parliament-text --k 8 --lambda 0.5 --json
    """
    check_choices(k, lambda_, temperature, adaptive)
    if html is not None and html.is_dir():
        raise InputError(f"{html} is a folder: name the page, for example --html {html / 'why.html'}.")
    from npda.recordings import audio_inputs

    inputs = list(audio_inputs(audio))

    from npda.datastore.store import open_stores
    from npda.decoding.knn.steering import Chosen, tuned_search
    from npda.translator import Translator

    stores = open_stores(store)  # first, since a model takes its time to load
    chosen = Chosen(k, lambda_, temperature, adaptive, length_penalty=length_penalty)
    progress = shows_progress(quiet, verbose, json)
    with loading(model, progress):
        translator = Translator.from_pretrained(model, source_language, device=device, precision=precision)
    backbone, fusion = translator.backbone, translator.steered_by(stores, language, chosen, not unguarded)
    listed = translator.terms(terms or (), language)
    given = {} if length_penalty is None else {"length_penalty": length_penalty}
    options = tuned_search(stores, beam=beam, max_length=max_length, **given)
    faults: list[InputError] = []

    def explanations() -> Iterator[Explanation]:
        from npda.explanation.explain import explain as explain_one
        from npda.explanation.explain import hear
        from npda.io.progress import SHORT, track

        for item in track(inputs, "explaining", enabled=progress, after=SHORT):
            try:
                memory = hear(backbone, item.file, language)
            except InputError as error:
                faults.append(error)
                print(f"npda: skipped: {item.renamed(error)}", file=sys.stderr)
                continue
            texts = (item.row.src_text, item.row.tgt_text) if item.row else ("", "")
            explanation = explain_one(backbone, memory, fusion, options, language, item.name, *texts, terms=listed)
            _print(explanation, json)
            yield explanation
        for opened in stores:
            opened.checking.finish()

    if html is None:
        for _ in explanations():
            pass
    else:
        _write(explanations(), html)
    if faults:
        raise typer.Exit(2)


def _print(explanation: Explanation, as_json: bool) -> None:
    if as_json:
        print(explanation.to_json(), flush=True)
        return

    from npda.explanation.table import render

    console = open_console(highlight=False)
    console.print(render(explanation, console.width))


def _write(explanations: Iterator[Explanation], path: Path) -> None:
    """The page, unless there is nothing to show."""
    from npda.io.files import atomic_write
    from npda.report.explanation import write_page

    # A file name that is not UTF-8 reaches us with lone surrogates, which could not be written.
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8", errors="replace") as stream:
        if not write_page(explanations, stream):
            raise typer.Exit(2)
    print(f"npda: {path} is written; open it in a browser.", file=sys.stderr)
