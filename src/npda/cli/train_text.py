"""npda train-text: a language model or a translator of text, from text alone."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from npda.cli.options import (
    AsJson,
    Device,
    LearningRate,
    Licence,
    MaxEpochs,
    MaxUpdates,
    Quiet,
    Seed,
    Verbose,
    Warmup,
    shows_progress,
)
from npda.io.errors import InputError


def train_text(
    texts: Annotated[
        list[Path], typer.Argument(help="Pairs or manifests (.tsv); for lm also plain text, one sentence per line.")
    ],
    dev: Annotated[list[Path], typer.Option(help="Dev data of the same kinds, to choose the best weights.")],
    out: Annotated[Path, typer.Option(help="Model directory; an interrupted run resumes.")],
    task: Annotated[
        Literal["lm", "mt"], typer.Option(help="Language model of the target side (lm), or text translator (mt).")
    ],
    vocabulary: Annotated[
        Path | None, typer.Option(help="Translator whose vocabulary to use; lm needs one, mt can train its own.")
    ] = None,
    preset: Annotated[
        Literal["mini", "paper"], typer.Option(help="Sizes and settings: for the embedded corpus, or a real one.")
    ] = "mini",
    vocabulary_size: Annotated[int | None, typer.Option(help="Size of a vocabulary of its own (mt).")] = None,
    seed: Seed = None,
    max_epochs: MaxEpochs = None,
    max_updates: MaxUpdates = None,
    learning_rate: LearningRate = None,
    warmup: Warmup = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Padded tokens in a batch (mt: of both sides).")] = None,
    licence: Licence = "",
    as_json: AsJson = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train what needs text only: a language model for shallow fusion, or a text translator for a cascade.

    If training is interrupted, the same command resumes from the last checkpoint and ends with the same weights.

    Examples:

        npda train-text runs/demo/data/domain.tsv --dev runs/demo/data/domain-dev.tsv --task lm \\
            --vocabulary runs/demo/model --out runs/lm

        npda train-text runs/demo/data/domain.tsv --dev runs/demo/data/domain-dev.tsv --task mt \\
            --vocabulary runs/demo/model --out runs/mt

        npda train-text runs/demo/data/domain.tsv --dev runs/demo/data/domain-dev.tsv --task mt \\
            --vocabulary-size 200 --out runs/mt-own
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
        raise InputError(
            "--vocabulary-size sets the size of a new vocabulary: use it with --task mt and without --vocabulary."
        )
    progress = shows_progress(quiet, verbose, as_json)
    if task == "lm":
        if vocabulary is None:
            raise InputError(
                "A language model needs --vocabulary: the directory of the translator it will be used with."
            )
        from npda.training.tasks.language_model import language_model_defaults, train_language_model

        settings = replace(language_model_defaults(preset), **changes)
        summary = train_language_model(texts, dev, vocabulary, out, settings, preset, progress, device, licence)
    else:
        from npda.training.tasks.text_model import text_defaults, train_text

        model, settings = text_defaults("mini" if preset == "mini" else "cascade")
        model = replace(model, vocabulary=vocabulary, vocabulary_size=vocabulary_size or model.vocabulary_size)
        summary = train_text(texts, dev, out, model, replace(settings, **changes), progress, device, licence)
    if as_json:
        print(json.dumps(asdict(summary), default=str))
    else:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in summary.dev.items())
        print(f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: {figures}")
