"""Train the text path of a model from out-of-domain triplets, once per model and language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from npda.corpus.manifest import Utterance, read_manifest, within
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.io.progress import SHORT, stage
from npda.models import is_public, load_backbone
from npda.models.backbone import Backbone, LearnsToRead
from npda.models.card import About, names
from npda.models.config import read_config
from npda.models.devices import choose_device
from npda.text import Vocabulary
from npda.training.data.copy_task import copy_data
from npda.training.data.speech import fingerprint, occurring, spoken_and_written
from npda.training.data.subwords import SubwordSampling
from npda.training.data.teacher import TeacherStates
from npda.training.loop.batching import BatchPlan
from npda.training.loop.mixing import Mixed, MixedData, MixedPlan
from npda.training.loop.processes import running, training_device
from npda.training.loop.run import Run
from npda.training.loop.settings import ALIGN_MINI, ALIGN_PRETRAINED, TrainingSettings
from npda.training.loop.train import TrainingSummary, train
from npda.training.objectives.alignment import Align, AlignData, Variant
from npda.training.objectives.translation import TextToText
from npda.training.tasks.speech import weights_digest
from npda.training.tasks.state_map import fit_state_map

_LARGE = 1_000.0  # a variance of states far beyond those of the paper's models


@dataclass(frozen=True)
class AlignOptions:
    """What is trained and how, beside the settings.

    variant: the paper's loss, or one of its ablations; by default what suits the model, see ``default_variant``
    layers, dropout: of the text encoder, by default those of the speech encoder
    subword_alpha: of ``SubwordSampling``, by default none
    text: files of text in the spoken language, for the copy task, see ``npda.training.data.copy_task``
    state_map: fit an affine map of the states that are read to those that are heard, once all else is trained, and keep
    it if it brings dev ``WORTH`` nearer; the paper has none
    """

    variant: Variant | None = None
    layers: int | None = None
    dropout: float | None = None
    subword_alpha: float | None = None
    text: tuple[Path, ...] = ()
    state_map: bool = True

    def description(self) -> dict[str, Any]:
        """What tells it from others; what is left at its default is not named."""
        assert self.variant is not None, "chosen before"
        more: dict[str, Any] = {"dropout": self.dropout, "subword_alpha": self.subword_alpha}
        if self.text:
            more["text"] = [short_digest(file) for file in self.text]
        named = {name: value for name, value in more.items() if value is not None}
        return {"variant": self.variant, "layers": self.layers, **named}


def align_defaults(model: str | Path) -> TrainingSettings:
    """Settings for a model: the paper's, those for the embedded corpus if it is narrower, or for large pre-trained."""
    if is_public(model):
        return ALIGN_PRETRAINED
    narrow = read_config(Path(model)).get("d_model", 256) < 256
    return ALIGN_MINI if narrow else TrainingSettings(spec_augment=None)


def default_variant(model: str | Path) -> Variant:
    """The paper's loss; for a large pre-trained model the distance alone.

    Such a model is no expert in the triplets it is aligned on: text would learn to translate them far better than
    speech ever can, and the states of the two would part instead of meeting.
    """
    return "mse-only" if is_public(model) else "full"


def train_alignment(
    model: str | Path,
    triplets: Sequence[str | Path],
    dev: Sequence[str | Path],
    out: str | Path,
    settings: TrainingSettings,
    options: AlignOptions = AlignOptions(),
    source_language: str | None = None,
    progress: bool = True,
    teacher: str | Path | None = None,
    device: str | torch.device = "auto",
    licence: str = "",
) -> TrainingSummary:
    """Write the model with a trained text encoder to ``out``; a run that was interrupted there goes on.

    source_language: that is spoken, for models that have to be told
    teacher: directory of ``compute_teacher`` for the same model and data; by default one in the run's own
    device: see ``npda.models.devices``
    licence: of the data, for the model's card
    """
    device = training_device(running(), device)
    with stage(f"loading {model}", progress, SHORT):
        backbone = _teachable(model, source_language).to(device)
    variant = options.variant or default_variant(model)
    options = replace(options, variant=variant)
    data, dev_data = (_usable(manifests, settings) for manifests in (triplets, dev))
    description = {
        "model": weights_digest(Path(model)),
        "train": fingerprint(data),
        "dev": fingerprint(dev_data),
        **options.description(),
    }
    about = About("aligned", names([*triplets, *options.text]), model, spoken_and_written(data), licence)
    with Run(out, settings, description, about) as run:
        torch.manual_seed(settings.seed)
        layers = 0 if variant == "embedding-only" else options.layers
        text_encoder = backbone.add_text_encoder(layers, options.dropout)
        teacher = Path(teacher or run.directory / "teacher")
        if running().is_main_process:
            _make_teacher(teacher, backbone, data, dev_data, progress)
        running().wait_for_everyone()
        states = TeacherStates.open(teacher / "train")
        train_data = AlignData(data, backbone, states)
        held_out = AlignData(dev_data, backbone, TeacherStates.open(teacher / "dev"))
        copied = copy_data(options.text, (u.src_text for u in data), backbone) if options.text else None
        only = occurring(len(backbone.target), *(each for each in (train_data, held_out, copied) if each is not None))
        smoothing = settings.label_smoothing
        subwords = _subwords(backbone, options.subword_alpha)
        align = Align(backbone, text_encoder, variant, smoothing, subwords, mse_weight(states), only)
        objective, everything, plan = align, train_data, None
        if copied is not None:
            objective = Mixed(align, TextToText(backbone, smoothing, only), "copy_")
            everything = MixedData(train_data, copied)
            cut = settings.batch_frames, settings.batches_per_update, settings.seed
            plan = MixedPlan(BatchPlan(train_data.lengths, *cut), BatchPlan(copied.lengths, *cut))

        def publish(directory: Path) -> None:
            if options.state_map and layers != 0:
                with stage("fitting the map of states", progress):
                    text_encoder.state_map, figures = fit_state_map(align, train_data, held_out)
                run.log.write("state map", update=run.log.read()[-1]["update"], **figures)
            backbone.save_pretrained(directory)

        return train(
            objective, everything, held_out, settings, run, publish, progress=progress, plan=plan, device=device
        )


def compute_teacher(
    model: str | Path,
    triplets: Sequence[str | Path],
    dev: Sequence[str | Path],
    out: str | Path,
    settings: TrainingSettings,
    source_language: str | None = None,
    progress: bool = True,
    device: str | torch.device = "auto",
) -> None:
    """The states that an alignment with these settings learns from: much of its time, the same for every variant.

    device: see ``npda.models.devices``
    """
    data, dev_data = (_usable(manifests, settings) for manifests in (triplets, dev))
    backbone = _teachable(model, source_language).to(choose_device(device))
    _make_teacher(Path(out), backbone, data, dev_data, progress)


def _make_teacher(
    directory: Path, backbone: Backbone, data: Sequence[Utterance], dev: Sequence[Utterance], progress: bool
) -> None:
    TeacherStates.make(directory / "train", data, backbone, progress=progress)
    TeacherStates.make(directory / "dev", dev, backbone, progress=progress)


def mse_weight(teacher: TeacherStates) -> float:
    """1, as in the paper; where states live on a far larger scale than its few dozen, 1 / their variance."""
    variance = teacher.variance()
    return 1.0 if variance < _LARGE else 1 / variance


def _teachable(model: str | Path, source_language: str | None) -> Any:
    """A model whose text path is trained: a `Backbone` that ``LearnsToRead``, and a torch module."""
    backbone = load_backbone(model, source_language)
    if backbone.max_frames == 0:
        raise InputError(f"{model} translates text; give the directory of a speech translator.")
    if not isinstance(backbone, nn.Module) or not isinstance(backbone, LearnsToRead):
        raise InputError(f"{model} brings its own text encoder: there is nothing to train, go on with `npda build`.")
    return backbone


def _subwords(backbone: Backbone, alpha: float | None) -> SubwordSampling | None:
    if alpha is None:
        return None
    if not isinstance(backbone.source, Vocabulary):
        raise InputError("Subword sampling needs a SentencePiece vocabulary of the model's own; leave it out.")
    return SubwordSampling(backbone.source, alpha)


def _usable(manifests: Sequence[str | Path], settings: TrainingSettings) -> list[Utterance]:
    utterances = [utterance for manifest in manifests for utterance in read_manifest(manifest)]
    return within(utterances, settings.max_frames)[0]
