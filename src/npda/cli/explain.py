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
    LengthPenalty,
    MaxLength,
    Model,
    Precision,
    Quiet,
    SourceLanguage,
    Temperature,
    Verbose,
    loading,
    shows_progress,
)
from npda.cli.translate import check_choices
from npda.io.errors import InputError

if TYPE_CHECKING:
    from npda.explanation.records import Explanation


def explain(
    audio: Audio,
    model: Model,
    store: Annotated[list[Path], typer.Option(help="Datastore to search; repeat it for several.")],
    k: K = None,
    lambda_: Lambda = None,
    temperature: Temperature = None,
    adaptive: Adaptive = False,
    beam: Beam = 5,
    length_penalty: LengthPenalty = 0.6,
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
    neighbour with the largest weight; --html and --json show the others as well. Settings tuned for the first --store
    are used.

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

    from npda.datastore.store import Datastore
    from npda.decoding.beam import SearchOptions
    from npda.decoding.knn.tuned import tuned_combiner
    from npda.models import load_backbone

    stores = [Datastore.open(path) for path in store]  # first, since a model takes its time to load
    combiner = tuned_combiner(stores[0], k, lambda_, temperature, adaptive)
    progress = shows_progress(quiet, verbose, json)
    with loading(model, progress):
        backbone = load_backbone(model, source_language, device, precision)
    for opened in stores:
        opened.check(backbone, language)
    faults: list[InputError] = []

    def explanations() -> Iterator[Explanation]:
        from npda.datastore.retrieval.joined import JoinedRetriever
        from npda.explanation.explain import explain as explain_one
        from npda.explanation.explain import hear
        from npda.io.progress import SHORT, track

        retriever, options = JoinedRetriever(stores), SearchOptions(beam, length_penalty, max_length)
        for item in track(inputs, "explaining", enabled=progress, after=SHORT):
            try:
                memory = hear(backbone, item.file, language)
            except InputError as error:
                faults.append(error)
                print(f"npda: skipped: {item.renamed(error)}", file=sys.stderr)
                continue
            texts = (item.row.src_text, item.row.tgt_text) if item.row else ("", "")
            explanation = explain_one(backbone, memory, retriever, combiner, options, language, item.name, *texts)
            _print(explanation, json)
            yield explanation

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
    from rich.console import Console

    from npda.explanation.table import render

    console = Console(highlight=False)
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
