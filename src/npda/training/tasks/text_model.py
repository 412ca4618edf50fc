"""Train a translator of text, for cascades: with the vocabularies of a speech translator, or with its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.io.files import atomic_directory
from npda.models.card import About, names
from npda.models.speech2text import SOURCE_DIRECTORY
from npda.models.text2text import PRESETS, Text2Text
from npda.text import Vocabulary
from npda.training.data.text import TextData, read_texts
from npda.training.loop.processes import running
from npda.training.loop.run import Run
from npda.training.loop.settings import TEXT_MINI, TrainingSettings
from npda.training.loop.train import TrainingSummary, train
from npda.training.objectives.translation import TextToText

_VOCABULARY_PAIRS = 500_000  # at most so many tell the pieces of a vocabulary


@dataclass(frozen=True)
class TextModel:
    """Which model to train; the defaults are the paper's Cascade-ST*, with ``vocabulary`` it is its Cascade-ST."""

    preset: str = "cascade"  # sizes of the model, see npda.models.text2text.PRESETS
    vocabulary: Path | None = None  # take source and target vocabulary of this model instead of training one
    vocabulary_size: int = 40_000  # pieces of the own vocabulary, which serves both sides

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise InputError(f"There is no preset {self.preset!r}; choose one of {', '.join(PRESETS)}.")

    def description(self) -> dict[str, Any]:
        """What distinguishes this model from others; a directory is identified by its contents."""
        if self.vocabulary is None:
            return asdict(self)
        digests = [vocabulary.digest() for vocabulary in self.load_vocabularies(self.vocabulary)]
        return {"preset": self.preset, "vocabulary": digests}

    @staticmethod
    def load_vocabularies(directory: Path) -> tuple[Vocabulary, Vocabulary]:
        """Source and target."""
        inner = Path(directory) / SOURCE_DIRECTORY
        if not inner.is_dir():
            raise InputError(f"{directory} has no vocabulary of transcripts ({SOURCE_DIRECTORY}/): choose another.")
        return Vocabulary.load(inner), Vocabulary.load(directory)


def text_defaults(preset: str) -> tuple[TextModel, TrainingSettings]:
    """The model of a preset and the settings to train it with."""
    if preset == "mini":
        return TextModel(preset, vocabulary_size=650), TEXT_MINI
    return TextModel(preset), TrainingSettings(spec_augment=None)


def train_text(
    pairs: Sequence[str | Path],
    dev: Sequence[str | Path],
    out: str | Path,
    model: TextModel = TextModel(),
    settings: TrainingSettings = TrainingSettings(spec_augment=None),
    progress: bool = True,
    device: str | torch.device = "auto",
    licence: str = "",
) -> TrainingSummary:
    """Write a translator of text to ``out``; a run that was interrupted there goes on.

    pairs, dev: .tsv with src_text and tgt_text, manifests with transcripts included
    device: see ``npda.models.devices``
    licence: of the pairs, for the model's card
    """
    description = {
        "task": "mt",
        **model.description(),
        "train": [short_digest(Path(file)) for file in pairs],
        "dev": [short_digest(Path(file)) for file in dev],
    }
    about = About("text translator", names(pairs), licence=licence)
    with Run(out, settings, description, about) as run:
        if running().is_main_process and not run.start.is_dir():
            _prepare(run.start, pairs, model)
        running().wait_for_everyone()
        torch.manual_seed(settings.seed)
        backbone = Text2Text.create(model.preset, *model.load_vocabularies(run.start))
        written = {pair.tgt_lang for pair in read_texts(pairs)}
        backbone.target.language = next(iter(written)) if len(written) == 1 else ""
        return train(
            TextToText(backbone, settings.label_smoothing),
            TextData(read_texts(pairs), backbone),
            TextData(read_texts(dev), backbone),
            settings,
            run,
            backbone.save_pretrained,
            progress=progress,
            device=device,
        )


def _prepare(start: Path, pairs: Sequence[str | Path], model: TextModel) -> None:
    """Write the vocabularies before the first update."""
    if model.vocabulary is not None:
        source, target = model.load_vocabularies(model.vocabulary)
    else:
        languages = {pair.tgt_lang for pair in read_texts(pairs)}
        tagged = sorted(languages) if len(languages) > 1 else ()
        source = target = Vocabulary.train(_both_sides(pairs), model.vocabulary_size, tagged)
    with atomic_directory(start) as temporary:
        target.save(temporary)
        source.save(temporary / SOURCE_DIRECTORY)


def _both_sides(files: Sequence[str | Path]) -> Iterator[str]:
    """Transcripts and translations of pairs spread evenly over the data."""
    count = sum(1 for _ in read_texts(files))
    for pair in islice(read_texts(files), 0, None, -(-count // _VOCABULARY_PAIRS)):
        yield from (pair.src_text, pair.tgt_text)
