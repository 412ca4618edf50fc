"""A training run that takes seconds: noise as speech, a model of two layers. Also a program, to be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import soundfile
import tiny
import torch

from npda import audio
from npda.corpus.manifest import Utterance, write_manifest
from npda.io.files import atomic_write
from npda.models.speech2text import Speech2Text
from npda.training.data.speech import SpeechData
from npda.training.loop.run import Run
from npda.training.loop.settings import TrainingSettings
from npda.training.loop.train import TrainingSummary, train
from npda.training.objectives.translation import SpeechToText

SETTINGS = TrainingSettings(
    batch_frames=450, batches_per_update=2, learning_rate=1e-3, warmup=4, ctc_weight=0.5, max_epochs=2, save_every=2,
    log_every=1, average=2, evaluate_every=3, patience=None,
)  # fmt: skip


def utterances(directory: Path, count: int, seed: int = 0, **fields: str) -> list[Utterance]:
    """Noise of 60 to 160 frames with sentences it has nothing to do with.

    Written once and atomically: other processes may be reading them.
    """
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        samples = random.normal(0, 0.1, 400 + 160 * int(random.integers(59, 160))).astype(np.float32)
        path = directory / f"{seed}-{number}.wav"
        if not path.exists():
            with atomic_write(path) as temporary:
                soundfile.write(temporary, samples, audio.SAMPLE_RATE)
        target, source = (tiny.SENTENCES[i] for i in random.integers(0, len(tiny.SENTENCES), 2))
        frames = audio.frame_count(len(samples))
        made.append(Utterance(f"{seed}-{number}", str(path), frames, target, source, **fields))
    return made


def manifests(directory: Path) -> tuple[Path, Path]:
    """train.tsv with 15 utterances and dev.tsv with 5."""
    paths = directory / "train.tsv", directory / "dev.tsv"
    for path, count, seed in zip(paths, (15, 5), (1, 2), strict=True):
        write_manifest(path, utterances(directory / "audio", count, seed))
    return paths


def data(directory: Path, backbone: Speech2Text) -> tuple[SpeechData, SpeechData]:
    """The same, ready for the loop."""
    train_data = SpeechData(utterances(directory, 15, 1), backbone, source=backbone.source)
    return train_data, SpeechData(utterances(directory, 5, 2), backbone, source=backbone.source)


def run(
    directory: Path,
    out: Path,
    settings: TrainingSettings = SETTINGS,
    dropout: float = 0.1,
    device: str | torch.device = "auto",
) -> TrainingSummary:
    """Train, or go on training, the tiny model."""
    backbone = tiny.backbone(dropout=dropout, init_std=0.02)
    assert backbone.source is not None
    objective = SpeechToText(backbone, settings.label_smoothing, settings.ctc_weight, len(backbone.source))
    train_data, dev_data = data(directory, backbone)
    description = {"train": train_data.fingerprint(), "dev": dev_data.fingerprint()}
    with Run(out, settings, description) as where:
        return train(
            objective, train_data, dev_data, settings, where, backbone.save_pretrained, progress=False, device=device
        )


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
