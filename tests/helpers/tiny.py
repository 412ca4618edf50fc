"""A random Speech2Text model small enough for tests, over a real SentencePiece vocabulary."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration

from npda.audio import Normalizer
from npda.models.backbone import Backbone, Memory
from npda.models.speech2text import Speech2Text
from npda.text import Vocabulary

SENTENCES = [
    "The floor is yours.",
    "We opened the window and closed the door.",
    "Das Wort hat die Fraktion.",
    "Der Boden ist schön, aber kalt.",
    "Wo ist die Küche?",
    "Sie möchte über den Antrag sprechen.",
]


@cache
def vocabulary(languages: tuple[str, ...] = ()) -> Vocabulary:
    return Vocabulary.train(SENTENCES, size=60, languages=languages)


def backbone(seed: int = 0, languages: tuple[str, ...] = (), **changes) -> Speech2Text:
    """Random weights, spread widely (init_std) so that decoding has clear winners and some variety."""
    torch.manual_seed(seed)
    size = dict(d_model=32, encoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64, conv_channels=64, init_std=0.2)
    normalizer = Normalizer(mean=np.zeros(80, np.float32), std=np.ones(80, np.float32))
    return Speech2Text.create("mini", vocabulary(languages), normalizer, vocabulary(), **{**size, **changes})


def theirs(model: Speech2Text) -> Speech2TextForConditionalGeneration:
    """transformers' own class with the weights of ours."""
    config = Speech2TextConfig(**model.model.config.to_json(torch.float32))
    made = Speech2TextForConditionalGeneration(config).train(model.training)
    made.load_state_dict(model.model.state_dict())
    return made


def speech(lengths: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random features [batch, longest, 80], zero-padded, and their lengths [batch]."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.zeros(len(lengths), max(lengths), 80)
    for row, length in zip(features, lengths, strict=True):
        row[:length] = torch.randn(length, 80, generator=generator)
    return features, torch.tensor(lengths)


@torch.inference_mode()
def heard_alike(model: Backbone, features: torch.Tensor, lengths: torch.Tensor, atol: float = 1e-4) -> Memory:
    """The memory of a batch, after a check that every utterance is encoded as it is alone.

    features: [batch, frames, dim]; lengths: [batch]
    """
    together = model.hear(features, lengths)
    for row, length in enumerate(lengths):
        alone = model.hear(features[row : row + 1, :length], lengths[row : row + 1])
        size = alone.states.shape[1]
        assert together.mask[row].tolist() == [True] * size + [False] * (together.mask.shape[1] - size)
        torch.testing.assert_close(together.states[row, :size], alone.states[0], atol=atol, rtol=1e-4)
    return together
