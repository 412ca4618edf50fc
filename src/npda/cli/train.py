"""npda train: a speech translator or recogniser from manifests."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer


def train(
    manifests: Annotated[list[Path], typer.Argument(help="Training manifests, fairseq-S2T .tsv.")],
    dev: Annotated[list[Path], typer.Option(help="Dev manifests, for choosing the best weights.")],
    out: Annotated[Path, typer.Option(help="Model directory; a run interrupted there goes on.")],
    preset: Annotated[
        Literal["mini", "paper-bilingual", "paper-multilingual"], typer.Option(help="Sizes and training settings.")
    ] = "mini",
    task: Annotated[
        Literal["st", "asr"], typer.Option(help="Translate (st), or write down what is said (asr).")
    ] = "st",
    encoder: Annotated[Path | None, typer.Option(help="Take the encoder of this model, e.g. a recogniser.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="Train this model further: one of npda train, or a public Whisper model.")
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(help="Spoken language, for a public model of many: a tag it knows, e.g. a relative's.")
    ] = None,
    vocabulary: Annotated[Path | None, typer.Option(help="Take the vocabularies of this model directory.")] = None,
    source_size: Annotated[int | None, typer.Option(help="Pieces of the transcripts' vocabulary.")] = None,
    target_size: Annotated[int | None, typer.Option(help="Pieces of the translations' vocabulary.")] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Target language with a tag; several times. Of a public model: what it is to write."),
    ] = None,
    tunes: Annotated[
        Literal["all", "decoder", "lna-d", "adapters"], typer.Option(help="What is trained; the rest is frozen.")
    ] = "all",
    adapter_width: Annotated[int | None, typer.Option(help="Bottleneck of the adapters (default: 64).")] = None,
    l0_weight: Annotated[
        float | None, typer.Option(help="Train gates that drop frames: the price of open ones, e.g. 0.5.")
    ] = None,
    feature_gates: Annotated[bool, typer.Option("--feature-gates", help="Gates for feature dimensions too.")] = False,
    seed: Annotated[int | None, typer.Option(help="Of weights, data order and dropout.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="End after so many passes over the data.")] = None,
    max_updates: Annotated[int | None, typer.Option(help="End after so many updates.")] = None,
    patience: Annotated[int | None, typer.Option(help="End after so many evaluations without progress.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its peak.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Updates until the peak.")] = None,
    schedule: Annotated[
        Literal["inverse-sqrt", "cosine", "constant"] | None, typer.Option(help="After the warm-up.")
    ] = None,
    batch_frames: Annotated[int | None, typer.Option(help="Padded 10 ms frames in a batch.")] = None,
    batches_per_update: Annotated[int | None, typer.Option(help="Batches of an update, over all processes.")] = None,
    ctc_weight: Annotated[float | None, typer.Option(help="Weight of the CTC loss on transcripts.")] = None,
    transcript_weight: Annotated[
        float | None, typer.Option(help="Weight of writing transcripts, for a public model (default: 0.5).")
    ] = None,
    silence: Annotated[
        float | None, typer.Option(help="Seconds that Whisper is to hear after an utterance (default: 0.5).")
    ] = None,
    average: Annotated[int | None, typer.Option(help="Best checkpoints to average at the end.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that compute features.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Train a speech translator (or recogniser) from scratch or from another model.

    The result is an ordinary Hugging Face directory that transformers opens as well. Interrupted at any moment, even
    by kill -9, the same command goes on from the last checkpoint to the same weights.

    Examples:

        npda train general/train.tsv --dev general/dev.tsv --out runs/base

        npda train train.tsv --dev dev.tsv --task asr --preset paper-bilingual --out runs/asr

        npda train train.tsv --dev dev.tsv --encoder runs/asr --preset paper-bilingual --out runs/st

        npda train in-domain.tsv --dev dev.tsv --start runs/st --tunes lna-d --out runs/lna-d

        npda train train.tsv --dev dev.tsv --start openai/whisper-base --source-language ln --language fr --out runs/fr

        npda train train.tsv --dev dev.tsv --task asr --start runs/asr --l0-weight 0.5 --out runs/gated

        torchrun --nproc-per-node 4 -m npda train train.tsv --dev dev.tsv --preset paper-bilingual --out runs/st
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
    summary = train_speech(manifests, dev, out, model, settings, progress=not as_json)
    if as_json:
        print(json.dumps(asdict(summary), default=str))
    else:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in summary.dev.items())
        print(f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: {figures}")
