"""Train the models of the catalogue: each kind by the one function that trains it, with the recipe's settings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from npda.io.files import atomic_write
from npda.models import load_backbone
from npda.models.card import About, write_model_card
from npda.models.language_model import LanguageModel
from npda.models.speech2text import Speech2Text
from npda.models.whisper import Whisper
from npda.reproduce.work import corpora
from npda.stages.plan import StageLog
from npda.systems.catalogue import Kind, TrainedModel
from npda.training.loop.settings import (
    ALIGN_MINI,
    ALIGN_PRETRAINED,
    FINE_TUNE,
    LANGUAGE_MODEL_MINI,
    MINI,
    TEXT_MINI,
    TrainingSettings,
)
from npda.training.objectives.alignment import Variant
from npda.training.tasks.align import AlignOptions, compute_teacher, train_alignment
from npda.training.tasks.joint import train_joint
from npda.training.tasks.language_model import train_language_model
from npda.training.tasks.speech import defaults, train_speech
from npda.training.tasks.text_model import text_defaults, train_text
from npda.training.tasks.tuned_parameters import Tunes, freeze

MODEL = "model"  # the model's directory in that of its stage
TEACHER = "teacher"  # likewise, of the states that alignments learn from
_PARAMETERS = "parameters.json"
# Of the share of open gates, in adaptive feature selection: at 0.85 the gates of the mini model hardly close.
L0_WEIGHT = 1.0


@dataclass(frozen=True)
class Job:
    """Everything a training needs to know.

    training, alignment, language_model: changes of the settings; shape, text_encoder: of the models themselves;
    corpora: the stages of each kind of data, one for each language; dev: the domain's, for training on text;
    models: the stages of start, vocabulary, encoder; teacher: the stage of the states an alignment learns from;
    pretrained: whether the base, or what it starts from, is a public model
    """

    model: TrainedModel
    preset: str
    seed: int
    training: Mapping[str, Any]
    alignment: Mapping[str, Any]
    language_model: Mapping[str, Any]
    shape: Mapping[str, Any]
    text_encoder: Mapping[str, Any]
    corpora: Mapping[str, tuple[str, ...]]
    dev: tuple[str, ...]
    models: Mapping[str, str]
    languages: tuple[str, ...]
    teacher: str = ""
    pretrained: bool = False

    @property
    def copies(self) -> bool:
        """Whether general text is written down as it is read."""
        return self.pretrained and self.model.kind == "alignment" and self.model.copies

    @property
    def variant(self) -> Variant:
        """Of the alignment."""
        if self.model.variant is None and self.pretrained:
            return "mse-only"
        return cast(Variant, self.model.variant or "full")

    def settings(self) -> dict[str, Any]:
        """What shapes the result, as JSON."""
        aligned = self.model.kind == "alignment"
        return {
            "kind": self.model.kind,
            "preset": self.preset,
            "tunes": self.model.tunes,
            "variant": self.variant,
            "gated": self.model.gated,
            "languages": list(self.languages),
            "training": asdict(self.resolved()),
            **({"l0_weight": L0_WEIGHT} if self.model.gated else {}),
            # Not told where there is nothing to tell: what was trained before there was a choice is found again.
            **({"shape": dict(self.shape)} if self.shape else {}),
            **({"copies": self.copies} if self.pretrained else {}),
            **({"text_encoder": dict(self.text_encoder)} if aligned and self.text_encoder else {}),
        }

    def resolved(self) -> TrainingSettings:
        """The settings of the training itself: those of the kind, the recipe's changes, this model's share of them."""
        settings = _usual(self.model.kind, self.preset)
        if self.pretrained:
            settings = {"alignment": ALIGN_PRETRAINED, "speech": FINE_TUNE}.get(self.model.kind, settings)
        by_kind = {"alignment": self.alignment, "language model": self.language_model, "text": {}}
        changes = by_kind.get(self.model.kind, self.training)
        settings = replace(settings, **{"seed": self.seed, **changes})
        shorter = {
            name: max(1, round(value * self.model.length))
            for name in ("max_epochs", "max_updates")
            if (value := getattr(settings, name)) is not None
        }
        return replace(settings, learning_rate=settings.learning_rate * self.model.learning_rate, **shorter)


def train_model(directory: Path, needed: Mapping[str, Path], log: StageLog, job: Job) -> None:
    """Train a model into its stage's directory, or go on training it there."""
    model, out, settings = job.model, directory / MODEL, job.resolved()
    models = {role: needed[stage] / MODEL for role, stage in job.models.items()}

    def files(of: Callable[[Path, str], Path], split: str, *data: str) -> list[Path]:
        """A split of some of the data, in all languages."""
        return [of(needed[stage], split) for each in data for stage in job.corpora[each]]

    speech_data = [each for each in model.data if each.endswith("speech")]
    text_data = [each for each in model.data if each.endswith("text")]
    speech, dev_speech = (files(corpora.speech, split, *speech_data) for split in ("train", "dev"))
    pairs = files(corpora.text, "train", *text_data)
    dev_pairs = [corpora.text(needed[stage], "dev") for stage in job.dev if stage in needed]
    match model.kind:
        case "speech" | "recogniser":
            shape, _ = defaults(job.preset, models.get("start"))
            task = "asr" if model.kind == "recogniser" else "st"
            l0_weight = L0_WEIGHT if model.gated else 0.0
            shape = replace(shape, task=task, tunes=model.tunes, l0_weight=l0_weight, **job.shape, **models)
            train_speech(speech, dev_speech, out, shape, settings)
        case "alignment":
            text = tuple(files(corpora.text, "train", *speech_data)) if job.copies else ()
            options = AlignOptions(job.variant, text=text, state_map=False, **job.text_encoder)
            teacher = needed[job.teacher] / TEACHER
            start = models["start"]
            train_alignment(start, speech, dev_speech, out, settings, options, teacher=teacher)
        case "joint":
            train_joint(models["start"], speech, pairs, dev_speech, out, settings)
        case "text":
            shape, _ = text_defaults("mini" if job.preset == "mini" else "cascade")
            shape = replace(shape, vocabulary=models.get("vocabulary"))
            transcripts = files(corpora.text, "train", *speech_data)
            train_text([*transcripts, *pairs], dev_pairs, out, shape, settings)
        case "language model":
            preset = "mini" if job.preset == "mini" else "paper"
            train_language_model(pairs, dev_pairs, models["vocabulary"], out, settings, preset)
    with atomic_write(directory / _PARAMETERS) as temporary:
        temporary.write_text(json.dumps(_count(out, model)))
    log("trained")


def teach(directory: Path, needed: Mapping[str, Path], log: StageLog, job: Job) -> None:
    """What the decoder thinks while it hears the general speech: every way of aligning learns from it."""
    start, stages = needed[job.models["start"]] / MODEL, [stage for each in job.corpora.values() for stage in each]
    speech, dev_speech = ([corpora.speech(needed[stage], split) for stage in stages] for split in ("train", "dev"))
    compute_teacher(start, speech, dev_speech, directory / TEACHER, job.resolved())


def take_over(
    directory: Path, needed: Mapping[str, Path], log: StageLog, model: Path, source_language: str | None
) -> None:
    """A public model, as the base of all others."""
    backbone = load_backbone(model, source_language)
    backbone.save_pretrained(directory / MODEL)
    write_model_card(directory / MODEL, About("translator", (), model))
    total = sum(p.numel() for p in cast(nn.Module, backbone).parameters())
    with atomic_write(directory / _PARAMETERS) as temporary:
        temporary.write_text(json.dumps({"total": total, "tuned": 0}))
    log(f"{total / 1e6:.1f}M parameters")


def parameters(directory: Path) -> dict[str, int]:
    """total: of the model; tuned: those that its training moved"""
    return json.loads((directory / _PARAMETERS).read_text(encoding="utf-8"))


def _count(out: Path, model: TrainedModel) -> dict[str, int]:
    if model.kind == "language model":
        modules, tuned = LanguageModel.from_pretrained(out), None
    else:
        modules = cast(nn.Module, load_backbone(out))
        tuned = "text_encoder." if model.kind == "alignment" else None
        if isinstance(modules, Speech2Text) and model.tunes != "all":
            freeze(modules, cast(Tunes, model.tunes), modules.adapters.languages if modules.adapters else ())
        elif isinstance(modules, Whisper):
            freeze(modules, cast(Tunes, model.tunes))
    sizes = {name: p.numel() for name, p in modules.named_parameters() if tuned or p.requires_grad}
    total = sum(p.numel() for p in modules.parameters())
    return {"total": total, "tuned": sum(n for name, n in sizes.items() if tuned is None or name.startswith(tuned))}


def _usual(kind: Kind, preset: str) -> TrainingSettings:
    """The settings a kind of training has by default."""
    match kind, preset:
        case "alignment", "mini":
            return ALIGN_MINI
        case "text", "mini":
            return TEXT_MINI
        case "language model", "mini":
            return LANGUAGE_MODEL_MINI
        case _, "mini":
            return MINI
        case "alignment" | "text" | "language model", _:
            return TrainingSettings(spec_augment=None)
        case _:
            return TrainingSettings()
