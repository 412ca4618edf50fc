"""npda train: a speech translator or recogniser from manifests."""

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
    codes,
    shows_progress,
)


def train(
    manifests: Annotated[list[Path], typer.Argument(help="Training manifests, fairseq-S2T .tsv.")],
    dev: Annotated[list[Path], typer.Option(help="Dev manifests, to choose the best weights.")],
    out: Annotated[Path, typer.Option(help="Model directory; an interrupted run resumes.")],
    preset: Annotated[
        Literal["mini", "paper-bilingual", "paper-multilingual"],
        typer.Option(help="Model sizes and training settings."),
    ] = "mini",
    task: Annotated[Literal["st", "asr"], typer.Option(help="Translate speech (st), or transcribe it (asr).")] = "st",
    encoder: Annotated[
        Path | None, typer.Option(help="Start from the encoder of this model, e.g. of a recogniser.")
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="Fine-tune this model: one of npda train, or a public Whisper model, by directory or hub name."
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(
            callback=codes,
            help="Spoken language, for a public model of many: one it knows, if need be a related one.",
        ),
    ] = None,
    vocabulary: Annotated[Path | None, typer.Option(help="Use the vocabularies of this model directory.")] = None,
    source_size: Annotated[int | None, typer.Option(help="Vocabulary size of the transcripts.")] = None,
    target_size: Annotated[int | None, typer.Option(help="Vocabulary size of the translations.")] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(
            callback=codes,
            help="Target language that gets a tag (German or de); repeat it for several. For a public model: the "
            "language it will write.",
        ),
    ] = None,
    tunes: Annotated[
        Literal["all", "decoder", "lna-d", "adapters"], typer.Option(help="Parts to train; the rest is frozen.")
    ] = "all",
    adapter_width: Annotated[int | None, typer.Option(help="Bottleneck of the adapters [default: 64].")] = None,
    l0_weight: Annotated[
        float | None, typer.Option(help="Train gates that drop frames: the penalty on open gates, e.g. 0.5.")
    ] = None,
    feature_gates: Annotated[
        bool, typer.Option("--feature-gates", help="Train gates for feature dimensions too.")
    ] = False,
    seed: Seed = None,
    max_epochs: MaxEpochs = None,
    max_updates: MaxUpdates = None,
    patience: Annotated[int | None, typer.Option(help="Stop after this many evaluations without progress.")] = None,
    learning_rate: LearningRate = None,
    warmup: Warmup = None,
    schedule: Annotated[
        Literal["inverse-sqrt", "cosine", "constant"] | None, typer.Option(help="Learning rate after the warm-up.")
    ] = None,
    batch_frames: Annotated[int | None, typer.Option(help="Padded 10 ms frames in a batch.")] = None,
    batches_per_update: Annotated[int | None, typer.Option(help="Batches per update, over all processes.")] = None,
    ctc_weight: Annotated[float | None, typer.Option(help="Weight of the CTC loss on transcripts.")] = None,
    transcript_weight: Annotated[
        float | None, typer.Option(help="Weight of the transcription loss, for a public model [default: 0.5].")
    ] = None,
    silence: Annotated[
        float | None, typer.Option(help="Seconds of silence after each utterance, for Whisper [default: 0.5].")
    ] = None,
    average: Annotated[int | None, typer.Option(help="Number of best checkpoints to average at the end.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that compute features.")] = None,
    licence: Licence = "",
    as_json: AsJson = False,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a speech translator (or recogniser) from scratch or from another model.

    The result is an ordinary Hugging Face directory that transformers opens as well. If training is interrupted, even
    by kill -9, the same command resumes from the last checkpoint and ends with the same weights.

    Examples:

        npda train runs/demo/data/general.tsv --dev runs/demo/data/general-dev.tsv --out runs/base

        npda train runs/demo/data/general.tsv --dev runs/demo/data/general-dev.tsv --task asr --out runs/asr

        npda train runs/demo/data/general.tsv --dev runs/demo/data/general-dev.tsv \\
            --encoder runs/asr --out runs/st

        npda train runs/demo/data/dev.tsv --dev runs/demo/data/test.tsv --start runs/demo/model \\
            --tunes lna-d --out runs/lna-d

        npda train runs/demo/data/general.tsv --dev runs/demo/data/general-dev.tsv --task asr \\
            --start runs/asr --l0-weight 0.5 --out runs/gated

        npda train train.tsv --dev dev.tsv --start openai/whisper-base --source-language ln \\
            --language fr --out runs/fr

        torchrun --nproc-per-node 4 -m npda train train.tsv --dev dev.tsv --preset paper-bilingual \\
            --out runs/paper
    """
    from npda.models.hub import model_directory
    from npda.training.tasks.speech import defaults, train_speech

    start = model_directory(start) if start is not None else None
    model, settings = defaults(preset, start)
    changes = {
        "task": task,
        "encoder": encoder,
        "start": start,
        "vocabulary": vocabulary,
        "source_size": source_size,
        "target_size": target_size,
        "languages": tuple(language) if language else None,
        "tunes": tunes,
        "adapter_width": adapter_width,
        "l0_weight": l0_weight,
        "feature_gates": feature_gates,
        "source_language": source_language,
        "silence": silence,
        "transcript_weight": transcript_weight,
    }
    model = replace(model, **{name: value for name, value in changes.items() if value is not None})
    changes = {
        "seed": seed,
        "max_epochs": max_epochs,
        "max_updates": max_updates,
        "patience": patience,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "schedule": schedule,
        "batch_frames": batch_frames,
        "batches_per_update": batches_per_update,
        "ctc_weight": ctc_weight,
        "average": average,
        "workers": workers,
    }
    settings = replace(settings, **{name: value for name, value in changes.items() if value is not None})
    progress = shows_progress(quiet, verbose, as_json)
    summary = train_speech(manifests, dev, out, model, settings, progress=progress, device=device, licence=licence)
    if as_json:
        print(json.dumps(asdict(summary), default=str))
    else:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in summary.dev.items())
        print(f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: {figures}")
