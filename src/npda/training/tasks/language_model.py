"""Train a language model on the target side of in-domain text, for shallow fusion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.models.card import About, names
from npda.models.language_model import PRESETS, LanguageModel
from npda.text import Vocabulary
from npda.training.data.text import TargetData, read_targets
from npda.training.loop.run import Run
from npda.training.loop.settings import LANGUAGE_MODEL_MINI, TrainingSettings
from npda.training.loop.train import TrainingSummary, train
from npda.training.objectives.translation import NextToken


def language_model_defaults(preset: str) -> TrainingSettings:
    """The settings to train a preset with."""
    return LANGUAGE_MODEL_MINI if preset == "mini" else TrainingSettings(spec_augment=None)


def train_language_model(
    texts: Sequence[str | Path],
    dev: Sequence[str | Path],
    vocabulary: str | Path,
    out: str | Path,
    settings: TrainingSettings,
    preset: str = "paper",
    progress: bool = True,
    device: str | torch.device = "auto",
    licence: str = "",
) -> TrainingSummary:
    """Write a language model to ``out``; a run that was interrupted there goes on.

    texts, dev: pairs or manifests (.tsv), whose target side counts, or plain text, a sentence a line
    vocabulary: directory of the translator it is to advise
    device: see ``npda.models.devices``
    licence: of the texts, for the model's card
    """
    if preset not in PRESETS:
        raise InputError(f"There is no preset {preset!r}; choose one of {', '.join(PRESETS)}.")
    target = Vocabulary.load(vocabulary)
    description = {
        "task": "lm",
        "preset": preset,
        "vocabulary": target.digest(),
        "train": [short_digest(Path(file)) for file in texts],
        "dev": [short_digest(Path(file)) for file in dev],
    }
    with Run(out, settings, description, About("language model", names(texts), licence=licence)) as run:
        torch.manual_seed(settings.seed)
        model = LanguageModel.create(preset, target)
        return train(
            NextToken(model, settings.label_smoothing),
            TargetData(read_targets(texts), model),
            TargetData(read_targets(dev), model),
            settings,
            run,
            model.save_pretrained,
            progress=progress,
            device=device,
        )
