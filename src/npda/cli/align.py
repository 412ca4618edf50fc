"""npda align: teach a model's decoder to take text for speech."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer


def align(
    triplets: Annotated[list[Path], typer.Argument(help="General-domain manifests with audio, src_text and tgt_text.")],
    model: Annotated[str, typer.Option(help="Model directory, or name on the hub; it is not changed.")],
    dev: Annotated[list[Path], typer.Option(help="Dev manifests of the same domain, for choosing the best weights.")],
    out: Annotated[Path, typer.Option(help="Directory for the model with its text encoder; interrupted, it goes on.")],
    variant: Annotated[
        Literal["full", "no-mse", "mse-only", "logits", "embedding-only"] | None,
        typer.Option(help="The paper's loss, or one of its ablations (default: full; mse-only for large models)."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Of the text encoder (default: the speech encoder's).")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Of the text encoder (default: the speech encoder's).")
    ] = None,
    subword_alpha: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1,
            help="Cut the transcripts into other pieces every time, against learning few sentences by heart in many "
            "epochs; the smaller, the more often: 0.1 or 0.05 (default: never, as in the paper).",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="More text of the spoken language (.tsv, or a sentence a line), which a model that can transcribe, "
            "such as Whisper, learns to write down: its text path needs that far more than translations."
        ),
    ] = None,
    source_language: Annotated[str | None, typer.Option(help="Spoken language, for models of many: de.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, data order and dropout.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="End after so many passes over the data.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its peak.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Updates until the peak.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Padded tokens of both sides in a batch.")] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option(
            help="Of products; bfloat16, half the time on GPUs and processors made for it (AVX-512 BF16, AMX), is "
            "float32 on others (default: float32; bfloat16 for large models)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Train the text path: the same decoder states for a transcript as for its speech.

    The base model stays frozen, bit for bit. Done once per model and language; every domain after that needs its text
    only. The log in OUT/train/log.jsonl has loss, squared distance (mse) and cosine on dev after every epoch.

    Examples:

        npda align general/train.tsv --dev general/dev.tsv --model runs/base --out runs/aligned

        npda align general/train.tsv --dev general/dev.tsv --model runs/base --out runs/no-mse --variant no-mse

        npda align general/train.tsv --dev general/dev.tsv --text german.txt --model openai/whisper-base \\
            --source-language de --out runs/whisper
    """
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
    summary = train_alignment(directory, triplets, dev, out, settings, options, source_language, progress=not as_json)
    if as_json:
        print(json.dumps(asdict(summary), default=str))
    else:
        dev_figures = summary.dev
        print(
            f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: "
            f"cross-entropy {dev_figures['nll']:.3f}, squared distance {dev_figures['mse']:.2f}, "
            f"cosine {dev_figures['cosine']:.3f}"
        )
