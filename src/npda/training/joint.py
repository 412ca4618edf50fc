"""E2E-JT-ST-MT: one model learns from general speech and from in-domain text at once, all its parameters tuned.

Every update has batches of both kinds: loss = CE_ST + CE_MT, each a mean over its own target tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import torch
from torch import Tensor

from npda.corpus.manifest import read_manifest
from npda.errors import InputError
from npda.models import load_speech2text
from npda.models.speech2text import TEXT_DIRECTORY
from npda.training.align import fresh_text_encoder
from npda.training.batching import BatchPlan
from npda.training.data import SpeechBatch, SpeechData, fingerprint
from npda.training.loop import TrainingSummary, train
from npda.training.objectives import Objective, SpeechToText, TextToText
from npda.training.run import Run
from npda.training.settings import TrainingSettings
from npda.training.speech import SPEC_AUGMENT, file_digest, weights_digest
from npda.training.text import TextBatch, TextData, read_texts

_FRAMES_PER_TOKEN = 3  # batches of text are that much smaller by default: as much work as one of speech


class Joint(Objective):
    """The terms of translating speech, and those of translating text as ``mt_loss`` and ``mt_nll``."""

    def __init__(self, speech: SpeechToText, text: TextToText) -> None:
        super().__init__()
        self.speech = speech
        self.text = text
        self.terms = (*speech.terms, *map(_of_text, text.terms))
        self.weights = {**speech.weights, **{_of_text(name): weight for name, weight in text.weights.items()}}

    def counts(self, batch: SpeechBatch | TextBatch) -> dict[str, int]:
        if isinstance(batch, SpeechBatch):
            return self.speech.counts(batch)
        return {_of_text(name): number for name, number in self.text.counts(batch).items()}

    def forward(self, batch: SpeechBatch | TextBatch) -> dict[str, Tensor]:
        if isinstance(batch, SpeechBatch):
            return self.speech(batch)
        return {_of_text(name): value for name, value in self.text(batch).items()}


def _of_text(term: str) -> str:
    return f"mt_{term}"


class JointData:
    """Utterances, then pairs; a batch is of one kind."""

    def __init__(self, speech: SpeechData, text: TextData) -> None:
        self.speech = speech
        self.text = text
        self.lengths: Sequence[int] = [*speech.lengths, *text.lengths]
        self.dropped = speech.dropped + text.dropped

    def fingerprint(self) -> str:
        return self.speech.fingerprint() + self.text.fingerprint()

    def batch(self, indices: Sequence[int]) -> SpeechBatch | TextBatch:
        first = len(self.speech)
        if indices[0] < first:
            return self.speech.batch(indices)
        return self.text.batch([index - first for index in indices])


@dataclass(frozen=True)
class JointPlan:
    """Beside every update of speech one of text. An epoch is one of speech; the text goes on where it was left.

    first: index of the first pair
    """

    speech: BatchPlan
    text: BatchPlan
    first: int

    def epoch(self, number: int) -> list[list[list[int]]]:
        done = sum(len(self.speech.epoch(earlier)) for earlier in range(number))
        speech = self.speech.epoch(number)
        text = islice(self._text(), done, done + len(speech))
        # All speech first: processes, which take turns, get batches of both kinds.
        return [
            [*heard, *([self.first + index for index in batch] for batch in read)]
            for heard, read in zip(speech, text, strict=True)
        ]

    def _text(self) -> Iterator[list[list[int]]]:
        """Updates without end."""
        for number in count():
            yield from self.text.epoch(number)


def train_joint(
    model: str | Path,
    triplets: Sequence[str | Path],
    text: Sequence[str | Path],
    dev: Sequence[str | Path],
    out: str | Path,
    settings: TrainingSettings,
    layers: int | None = None,
    batch_tokens: int | None = None,
    progress: bool = True,
) -> TrainingSummary:
    """Write the jointly trained model to ``out``; a run that was interrupted there goes on.

    model: the base; with a text encoder, that one is trained further, otherwise a random one
    triplets, dev: manifests; the dev loss is that of translating speech
    text: in-domain pairs (.tsv); layers: of a random text encoder, by default as many as the speech encoder has
    batch_tokens: of both sides in a batch of text, by default a third of ``batch_frames``
    """
    backbone = load_speech2text(model)
    utterances, dev_utterances = (
        [utterance for manifest in manifests for utterance in read_manifest(manifest)] for manifests in (triplets, dev)
    )
    batch_tokens = batch_tokens or max(1, settings.batch_frames // _FRAMES_PER_TOKEN)
    aligned = Path(model) / TEXT_DIRECTORY / "model.safetensors"
    description = {
        "task": "joint",
        "model": weights_digest(Path(model)),
        "text_encoder": file_digest(aligned) if aligned.is_file() else None,
        "train": fingerprint(utterances),
        "text": [file_digest(Path(file)) for file in text],
        "dev": fingerprint(dev_utterances),
        "layers": layers,
        "batch_tokens": batch_tokens,
    }
    source = backbone.source if settings.ctc_weight > 0 else None
    if settings.ctc_weight > 0 and source is None:
        raise InputError("The CTC loss needs a model with a vocabulary of transcripts; set ctc_weight to 0.")
    with Run(out, settings, description) as run:
        torch.manual_seed(settings.seed)
        if backbone.text_encoder is None:
            layers = layers or backbone.model.config.encoder_layers
            backbone.text_encoder = fresh_text_encoder(backbone, layers)
        backbone.requires_grad_(True)
        speech = SpeechData(utterances, backbone, "st", source, settings.max_frames, progress=progress)
        data = JointData(speech, TextData(read_texts(text), backbone))
        dev_data = SpeechData(dev_utterances, backbone, "st", source, settings.max_frames, progress=progress)
        objective = Joint(
            SpeechToText(
                backbone,
                settings.label_smoothing,
                settings.ctc_weight,
                len(source) if source is not None else None,
                SPEC_AUGMENT[settings.spec_augment]() if settings.spec_augment is not None else None,
            ),
            TextToText(backbone, settings.label_smoothing),
        )
        plan = JointPlan(
            BatchPlan(data.speech.lengths, settings.batch_frames, settings.batches_per_update, settings.seed),
            BatchPlan(data.text.lengths, batch_tokens, settings.batches_per_update, settings.seed),
            first=len(data.speech),
        )
        return train(objective, data, dev_data, settings, run, backbone.save_pretrained, progress=progress, plan=plan)
