"""npda train-text: a language model or a translator of text, from text alone."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from npda.io.errors import InputError


def train_text(
    texts: Annotated[
        list[Path], typer.Argument(help="Pairs or manifests, .tsv; for lm plain text too, a sentence a line.")
    ],
    dev: Annotated[list[Path], typer.Option(help="The same of the dev data, for choosing the best weights.")],
    out: Annotated[Path, typer.Option(help="Model directory; a run interrupted there goes on.")],
    task: Annotated[
        Literal["lm", "mt"], typer.Option(help="Language model of the target side (lm), or translate (mt).")
    ],
    vocabulary: Annotated[
        Path | None, typer.Option(help="Translator whose vocabulary to take; lm needs one, mt can train its own.")
    ] = None,
    preset: Annotated[
        Literal["mini", "paper"], typer.Option(help="Sizes and training settings: for the embedded corpus, or real.")
    ] = "mini",
    vocabulary_size: Annotated[int | None, typer.Option(help="Pieces of a vocabulary of its own (mt).")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, data order and dropout.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="End after so many passes over the data.")] = None,
    max_updates: Annotated[int | None, typer.Option(help="End after so many updates.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its peak.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Updates until the peak.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Padded tokens in a batch (mt: of both sides).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Train what needs text only: a language model for shallow fusion, or a translator of text for a cascade.

    Interrupted at any moment, the same command goes on from the last checkpoint to the same weights.

    Examples:

        npda train-text parliament/train.tsv --dev parliament/dev.tsv --task lm --vocabulary runs/base --out runs/lm

        npda train-text parliament/train.tsv --dev parliament/dev.tsv --task mt --vocabulary runs/base --out runs/mt

        npda train-text parliament/train.tsv --dev parliament/dev.tsv --task mt --out runs/mt-own
    """
    changes = {
        "seed": seed,
        "max_epochs": max_epochs,
        "max_updates": max_updates,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "batch_frames": batch_tokens,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if vocabulary_size is not None and (task == "lm" or vocabulary is not None):
        raise InputError("--vocabulary-size is that of an own vocabulary: only for --task mt without --vocabulary.")
    if task == "lm":
        if vocabulary is None:
            raise InputError("A language model needs --vocabulary: the directory of the translator it is to advise.")
        from npda.training.tasks.language_model import language_model_defaults, train_language_model

        settings = replace(language_model_defaults(preset), **changes)
        summary = train_language_model(texts, dev, vocabulary, out, settings, preset, progress=not as_json)
    else:
        from npda.training.tasks.text_model import text_defaults, train_text

        model, settings = text_defaults("mini" if preset == "mini" else "cascade")
        model = replace(model, vocabulary=vocabulary, vocabulary_size=vocabulary_size or model.vocabulary_size)
        summary = train_text(texts, dev, out, model, replace(settings, **changes), progress=not as_json)
    if as_json:
        print(json.dumps(asdict(summary), default=str))
    else:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in summary.dev.items())
        print(f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: {figures}")
