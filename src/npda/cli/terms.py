"""npda terms: learn how the model renders the terms of a list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import (
    AsJson,
    Device,
    Language,
    Model,
    Precision,
    Quiet,
    SourceLanguage,
    Verbose,
    loading,
    shows_progress,
)
from npda.io.files import check_file
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from npda.corpus.terms import Term


def terms(
    terms: Annotated[Path, typer.Argument(help="The list, source and target: a CSV or TSV with a term per line.")],
    model: Model,
    out: Annotated[Path, typer.Option(help="Folder to keep the learnt terms in.")],
    general: Annotated[
        list[Path] | None,
        typer.Option(help="Text that holds the terms: pairs (.tsv, .gz too), or sentences (.txt); repeat it for more."),
    ] = None,
    speak: Annotated[
        str | None, typer.Option(help="Voice that reads the terms aloud in short sentences: espeak:en-us.")
    ] = None,
    read: Annotated[
        bool | None,
        typer.Option(help="Let the model translate the text by its text path [default: if it has no translations]."),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences to read per term.")] = 24,
    language: Language = None,
    source_language: SourceLanguage = None,
    json: AsJson = False,
    device: Device = "auto",
    precision: Precision = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Learn how the model renders the terms of a list, so that `npda translate --terms` can write what you want.

    The list has the columns source and target; a header may name more: source_plural and target_plural, and like, a
    word of the source language that takes the same articles as the target. Write terms as they are written inside a
    sentence; a | separates ways to say the same.

    The result is a table that you may edit, OUT/terms.tsv: the model's renderings of every term, and the purity of
    each, which is how often the term was really said when the model writes this rendering. A term is learnt once: if
    you change the list, only new lines are learnt. An interrupted run resumes.

    Examples:

        npda terms runs/demo/data/terms.csv --general runs/demo/data/general.tsv \\
            --model runs/demo/model --out terms

        npda terms runs/demo/data/terms.csv --speak espeak:en-us --source-language English \\
            --model runs/demo/model --out spoken-terms
    """
    for path in (terms, *(general or ())):
        check_file(path)

    from npda.corpus.terms import read_terms
    from npda.terms.record import TermFolder

    listed = read_terms(terms)  # first, since a model takes its time to load
    TermFolder(out).check()

    from npda.corpus.voices import voice
    from npda.models import load_backbone
    from npda.terms.learning import LearnOptions, learn_terms

    speaker = voice(speak) if speak else None
    progress = shows_progress(quiet, verbose, json)
    with loading(model, progress):
        backbone = load_backbone(model, source_language, device, precision)
    backbone.prompt(language)  # an unknown language is found out before any work
    options = LearnOptions(tuple(general or ()), read, sentences, speaker, language, source_language, progress)
    learnt = learn_terms(backbone, listed, out, options)
    _print(learnt, out, json)


def _print(learnt: Sequence[Term], out: Path, as_json: bool) -> None:
    if as_json:
        import json

        rows = [
            {
                "source": list(term.sources),
                "target": term.target,
                "plural": term.plural,
                "contexts": term.contexts,
                "renderings": {rendering.text: rendering.purity for rendering in term.renderings or ()},
            }
            for term in learnt
        ]
        print(json.dumps({"out": str(out), "terms": rows}, ensure_ascii=False))
        return
    from rich.table import Table

    table = Table("source", "target", "renderings and their purity", "sentences")
    for term in learnt:
        found = ", ".join(f"{rendering.text} {rendering.purity:.2f}" for rendering in term.renderings or ())
        table.add_row(term.source, term.target, found or "none: never replaced", str(term.contexts))
    console = open_console()
    console.print(table)
    console.print(f"Edit them in {out / 'terms.tsv'}; use them with --terms {out}.", highlight=False, soft_wrap=True)
