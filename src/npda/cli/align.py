"""npda align: teach a model's decoder to take text for speech."""

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
    Quiet,
    Seed,
    SourceLanguage,
    UnchangedModel,
    Verbose,
    Warmup,
    shows_progress,
)


def align(
    triplets: Annotated[list[Path], typer.Argument(help="General-domain manifests with audio, src_text and tgt_text.")],
    model: UnchangedModel,
    dev: Annotated[list[Path], typer.Option(help="Dev manifests of the same domain, to choose the best weights.")],
    out: Annotated[
        Path, typer.Option(help="Directory for the model with its text encoder; an interrupted run resumes.")
    ],
    variant: Annotated[
        Literal["full", "no-mse", "mse-only", "logits", "embedding-only"] | None,
        typer.Option(help="The paper's loss, or one of its ablations [default: full; mse-only for large models]."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Layers of the text encoder [default: as the speech encoder's].")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Dropout of the text encoder [default: the speech encoder's].")
    ] = None,
    subword_alpha: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1,
            help="Sample another segmentation of the transcripts in every epoch, against overfitting on few sentences; "
            "smaller values vary more: 0.1 or 0.05 [default: never, as in the paper].",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="More text of the spoken language (.tsv, or one sentence per line). A model that can transcribe, such "
            "as Whisper, learns to write it down, which helps its text path far more than translations do."
        ),
    ] = None,
    source_language: SourceLanguage = None,
    seed: Seed = None,
    max_epochs: MaxEpochs = None,
    learning_rate: LearningRate = None,
    warmup: Warmup = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Padded tokens of both sides in a batch.")] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(
            help="Matrix-multiply precision; bfloat16 is about twice as fast on GPUs and on processors with AVX-512 "
            "BF16 or AMX, others compute in float32 [default: float32; bfloat16 for large models]."
        ),
    ] = None,
    licence: Licence = "",
    as_json: AsJson = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train the text path: the decoder gets the same states from a transcript as from its speech.

    The base model stays frozen, bit for bit. Do this once per model and language; every domain after that needs its
    text only. Then general text becomes the model's counter-store, OUT/counter, with which the stores of domains may
    stay on: the text of --text if it has translations, else the triplets. OUT/train/log.jsonl records loss, squared
    distance (mse) and cosine on dev after every epoch.

    Examples:

        npda align runs/demo/data/general.tsv --dev runs/demo/data/general-dev.tsv \\
            --model runs/demo/model --out runs/aligned

        npda align runs/demo/data/general.tsv --dev runs/demo/data/general-dev.tsv \\
            --model runs/demo/model --variant no-mse --out runs/no-mse

        npda align general.tsv --dev general-dev.tsv --text german.txt --model openai/whisper-base \\
            --source-language German --out runs/whisper
    """
    from npda.adapt.text_path import build_counter_for
    from npda.models.hub import model_directory
    from npda.training.tasks.align import AlignOptions, align_defaults, train_alignment

    directory = model_directory(model)

    changes = {
        "seed": seed,
        "max_epochs": max_epochs,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "batch_frames": batch_tokens,
        "precision": precision,
    }
    settings = replace(
        align_defaults(directory), **{name: value for name, value in changes.items() if value is not None}
    )
    options = AlignOptions(variant, layers, dropout, subword_alpha, tuple(text or ()))
    progress = shows_progress(quiet, verbose, as_json)
    summary = train_alignment(
        directory, triplets, dev, out, settings, options, source_language, progress, device=device, licence=licence
    )
    counter = build_counter_for(out, text or (), triplets, dev, source_language, device, progress, licence)
    if as_json:
        print(json.dumps({**asdict(summary), "counter": str(counter.path)}, default=str))
    else:
        dev_figures = summary.dev
        print(
            f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: "
            f"cross-entropy {dev_figures['nll']:.3f}, squared distance {dev_figures['mse']:.2f}, "
            f"cosine {dev_figures['cosine']:.3f}"
        )
        print(f"{counter.path}: the counter-store, {len(counter.store):,} keys of general text")
