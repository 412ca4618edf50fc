"""npda align: teach a model's decoder to take text for speech."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer


def align(
    triplets: Annotated[list[Path], typer.Argument(help="General-domain manifests with audio, src_text and tgt_text.")],
    model: Annotated[Path, typer.Option(help="Model directory; it is not changed.")],
    dev: Annotated[list[Path], typer.Option(help="Dev manifests of the same domain, for choosing the best weights.")],
    out: Annotated[Path, typer.Option(help="Directory for the model with its text encoder; interrupted, it goes on.")],
    variant: Annotated[
        Literal["full", "no-mse", "mse-only", "logits", "embedding-only"],
        typer.Option(help="The paper's loss, or one of its ablations."),
    ] = "full",
    layers: Annotated[
        int | None, typer.Option(min=1, help="Of the text encoder (default: the speech encoder's).")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Of the text encoder (default: the speech encoder's).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights, data order and dropout.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="End after so many passes over the data.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its peak.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Updates until the peak.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Padded tokens of both sides in a batch.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Train the text path: the same decoder states for a transcript as for its speech.

    The base model stays frozen, bit for bit. Done once per model and language; every domain after that needs its text
    only. The log in OUT/train/log.jsonl has loss, squared distance (mse) and cosine on dev after every epoch.

    Examples:

        npda align general/train.tsv --dev general/dev.tsv --model runs/base --out runs/aligned

        npda align general/train.tsv --dev general/dev.tsv --model runs/base --out runs/no-mse --variant no-mse
    """
    from npda.training.align import align_defaults, train_alignment

    changes = {
        "seed": seed,
        "max_epochs": max_epochs,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "batch_frames": batch_tokens,
    }
    settings = replace(align_defaults(model), **{name: value for name, value in changes.items() if value is not None})
    summary = train_alignment(model, triplets, dev, out, settings, variant, layers, dropout, progress=not as_json)
    if as_json:
        print(json.dumps(asdict(summary), default=str))
    else:
        dev_figures = summary.dev
        print(
            f"{summary.directory}: {summary.updates} updates in {summary.seconds:.0f} s; on dev: "
            f"cross-entropy {dev_figures['nll']:.3f}, squared distance {dev_figures['mse']:.2f}, "
            f"cosine {dev_figures['cosine']:.3f}"
        )
