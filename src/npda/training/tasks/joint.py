"""E2E-JT-ST-MT: one model learns from general speech and from in-domain text at once, all its parameters tuned.

Every update has batches of both kinds: loss = CE_ST + CE_MT, each a mean over its own target tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from npda.corpus.manifest import read_manifest
from npda.io.digests import short_digest
from npda.io.errors import InputError
from npda.models import load_speech2text
from npda.models.card import About, names
from npda.models.speech2text import TEXT_DIRECTORY
from npda.training.data.speech import SpeechData, fingerprint, spoken_and_written
from npda.training.data.text import TextData, read_texts
from npda.training.loop.batching import BatchPlan
from npda.training.loop.mixing import Mixed, MixedData, MixedPlan
from npda.training.loop.run import Run
from npda.training.loop.settings import TrainingSettings
from npda.training.loop.train import TrainingSummary, train
from npda.training.objectives.translation import SpeechToText, TextToText
from npda.training.tasks.speech import SPEC_AUGMENT, weights_digest

_FRAMES_PER_TOKEN = 3  # batches of text are that much smaller by default: as much work as one of speech


def joint(speech: SpeechToText, text: TextToText) -> Mixed:
    """The terms of translating speech, and those of translating text as ``mt_loss`` and ``mt_nll``."""
    return Mixed(speech, text, "mt_")


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
    device: str | torch.device = "auto",
    licence: str = "",
) -> TrainingSummary:
    """Write the jointly trained model to ``out``; a run that was interrupted there goes on.

    model: the base; with a text encoder, that one is trained further, otherwise a random one
    triplets, dev: manifests; the dev loss is that of translating speech
    text: in-domain pairs (.tsv); layers: of a random text encoder, by default as many as the speech encoder has
    batch_tokens: of both sides in a batch of text, by default a third of ``batch_frames``
    device: see ``npda.models.devices``
    licence: of the data, for the model's card
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
        "text_encoder": short_digest(aligned) if aligned.is_file() else None,
        "train": fingerprint(utterances),
        "text": [short_digest(Path(file)) for file in text],
        "dev": fingerprint(dev_utterances),
        "layers": layers,
        "batch_tokens": batch_tokens,
    }
    source = backbone.source if settings.ctc_weight > 0 else None
    if settings.ctc_weight > 0 and source is None:
        raise InputError("The CTC loss needs a model with a vocabulary of transcripts; set ctc_weight to 0.")
    about = About("aligned", names([*triplets, *text]), model, spoken_and_written(utterances), licence)
    with Run(out, settings, description, about) as run:
        torch.manual_seed(settings.seed)
        if backbone.text_encoder is None:
            backbone.add_text_encoder(layers)
        backbone.requires_grad_(True)
        speech = SpeechData(utterances, backbone, "st", source, settings.max_frames, progress=progress)
        data = MixedData(speech, TextData(read_texts(text), backbone))
        dev_data = SpeechData(dev_utterances, backbone, "st", source, settings.max_frames, progress=progress)
        objective = joint(
            SpeechToText(
                backbone,
                settings.label_smoothing,
                settings.ctc_weight,
                len(source) if source is not None else None,
                SPEC_AUGMENT[settings.spec_augment]() if settings.spec_augment is not None else None,
            ),
            TextToText(backbone, settings.label_smoothing),
        )
        plan = MixedPlan(
            BatchPlan(data.first.lengths, settings.batch_frames, settings.batches_per_update, settings.seed),
            BatchPlan(data.second.lengths, batch_tokens, settings.batches_per_update, settings.seed),
        )
        return train(
            objective, data, dev_data, settings, run, backbone.save_pretrained,
            progress=progress, plan=plan, device=device,
        )  # fmt: skip
