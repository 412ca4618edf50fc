"""Train the text path of a model from out-of-domain triplets, once per model and language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from npda.corpus.manifest import Utterance, read_manifest, within
from npda.errors import InputError
from npda.models import load_speech2text, read_config
from npda.models.speech2text import Speech2Text
from npda.models.text_encoder import TextEncoder, TextEncoderSize
from npda.training.alignment import Align, AlignData, Variant
from npda.training.data import fingerprint
from npda.training.loop import TrainingSummary, train
from npda.training.processes import running
from npda.training.run import Run
from npda.training.settings import ALIGN_MINI, TrainingSettings
from npda.training.speech import weights_digest
from npda.training.teacher import TeacherStates


def align_defaults(model: str | Path) -> TrainingSettings:
    """Settings for a model's size: the paper's, or those for the embedded corpus if it is narrower than the paper's."""
    narrow = read_config(Path(model)).get("d_model", 256) < 256
    return ALIGN_MINI if narrow else TrainingSettings(spec_augment=None)


def train_alignment(
    model: str | Path,
    triplets: Sequence[str | Path],
    dev: Sequence[str | Path],
    out: str | Path,
    settings: TrainingSettings,
    variant: Variant = "full",
    layers: int | None = None,
    dropout: float | None = None,
    progress: bool = True,
) -> TrainingSummary:
    """Write the model with a trained text encoder to ``out``; a run that was interrupted there goes on.

    layers, dropout: of the text encoder, by default those of the speech encoder
    """
    backbone = load_speech2text(model)
    data, dev_data = (_usable(manifests, settings) for manifests in (triplets, dev))
    description = {
        "model": weights_digest(Path(model)),
        "train": fingerprint(data),
        "dev": fingerprint(dev_data),
        "variant": variant,
        "layers": layers,
        **({"dropout": dropout} if dropout is not None else {}),
    }
    with Run(out, settings, description) as run:
        torch.manual_seed(settings.seed)
        layers = 0 if variant == "embedding-only" else layers or backbone.model.config.encoder_layers
        backbone.text_encoder = fresh_text_encoder(backbone, layers, dropout)
        teacher = run.directory / "teacher"
        if running().is_main_process:
            TeacherStates.make(teacher / "train", data, backbone, progress=progress)
            TeacherStates.make(teacher / "dev", dev_data, backbone, progress=progress)
        running().wait_for_everyone()
        return train(
            Align(backbone, backbone.text_encoder, variant, settings.label_smoothing),
            AlignData(data, backbone, TeacherStates.open(teacher / "train")),
            AlignData(dev_data, backbone, TeacherStates.open(teacher / "dev")),
            settings,
            run,
            backbone.save_pretrained,
            progress=progress,
        )


def _usable(manifests: Sequence[str | Path], settings: TrainingSettings) -> list[Utterance]:
    utterances = [utterance for manifest in manifests for utterance in read_manifest(manifest)]
    return within(utterances, settings.max_frames)[0]


def fresh_text_encoder(backbone: Speech2Text, layers: int, dropout: float | None = None) -> TextEncoder:
    """As wide as the speech encoder, random."""
    if backbone.source is None:
        raise InputError("The model has no vocabulary of transcripts (source/); the text path needs one.")
    config = backbone.model.config
    size = TextEncoderSize(
        vocabulary=len(backbone.source),
        dim=config.d_model,
        layers=layers,
        heads=config.encoder_attention_heads,
        ffn=config.encoder_ffn_dim,
        dropout=float(config.dropout) if dropout is None else dropout,
    )
    return TextEncoder(size, backbone.source.pad)
