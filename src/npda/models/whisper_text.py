"""Whisper's way in for text: tokens that arrive like speech, through copies of the upper speech-encoder layers."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder, WhisperEncoderLayer

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.records import read_json
from npda.models.backbone import Memory
from npda.models.layers.encoder import ready_layers
from npda.models.layers.masks import attention_mask
from npda.models.layers.packing import Packing
from npda.models.state_map import StateMap
from npda.models.weights import load_into, read_weights

LAYERS = 3  # of the speech encoder that are copied, from the top

_FRAMES = 2  # memory entries a token becomes
_SPACING = 12  # positions from token to token: a quarter of a second, as in speech
_CONFIG = "config.json"
_WEIGHTS = "model.safetensors"


class WhisperTextEncoder(nn.Module):
    """Two frames a token, positions spaced like speech, transformer layers; a learned silence ends every sentence.

    The embedding and the positions are the model's own and stay frozen: they come with each call.
    """

    scale: Tensor  # brings the embeddings to unit variance

    def __init__(self, config: WhisperConfig, layers: int = LAYERS) -> None:
        super().__init__()
        dim = config.d_model
        self.packing = Packing()  # for everything but training
        self.state_map: StateMap | None = None  # fitted once all else is trained
        self.register_buffer("scale", torch.ones(()))
        self.frames = nn.Linear(dim, _FRAMES * dim)
        self.silence = nn.Parameter(torch.zeros(_FRAMES, dim))
        self.layers = nn.ModuleList(WhisperEncoderLayer(config) for _ in range(layers))
        self.layer_norm = nn.LayerNorm(dim)

    @classmethod
    def like(cls, encoder: WhisperEncoder, embedding: Tensor, layers: int = LAYERS) -> WhisperTextEncoder:
        """Upper layers and final norm of a speech encoder; the rest is random. embedding: [vocabulary, dim]"""
        if not 1 <= layers <= len(encoder.layers):
            raise InputError(f"The speech encoder has {len(encoder.layers)} layers: copy between 1 and all of them.")
        text = cls(encoder.config, 0)
        text.scale = 1 / embedding.detach().std()
        text.layers = deepcopy(encoder.layers[-layers:])
        text.layer_norm = deepcopy(encoder.layer_norm)
        return text.to(embedding.device)

    def set_dropout(self, dropout: float) -> None:
        """In place of the speech encoder's."""
        layers: Any = self.layers  # pyright sees only Tensor | Module inside
        for layer in layers:
            layer.dropout = dropout

    def forward(self, embedded: Tensor, lengths: Tensor, positions: Tensor) -> Memory:
        """embedded: [batch, length, dim] right-padded; lengths: [batch]; positions: [most, dim] as in speech"""
        x = self.frames(embedded * self.scale).unflatten(-1, (_FRAMES, -1)).flatten(1, 2)
        x = nn.functional.pad(x, (0, 0, 0, _FRAMES))
        place = torch.arange(x.shape[1], device=x.device)
        beyond = place - _FRAMES * lengths[:, None]  # [batch, frames]; 0 is the first frame of silence
        x = torch.where((beyond < 0)[:, :, None], x, self.silence[beyond.clamp(0, _FRAMES - 1)])
        x = x + positions[_spaced(place, lengths, len(positions))]
        mask = beyond < _FRAMES
        attention = attention_mask(mask, x)
        for layer in ready_layers(self.layers, self.packing):
            x = layer(x, attention)
        return Memory(self.layer_norm(x), mask, state_map=self.state_map)

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        with atomic_write(directory / _WEIGHTS) as temporary:
            save_file(self.state_dict(), temporary)
        with atomic_write(directory / _CONFIG) as temporary:
            temporary.write_text(json.dumps({"layers": len(self.layers)}) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, directory: str | Path, config: WhisperConfig) -> WhisperTextEncoder:
        """config: of the model it belongs to"""
        directory = Path(directory)
        try:
            encoder = cls(config, read_json(directory / _CONFIG)["layers"])
            weights = read_weights(directory / _WEIGHTS)
            encoder.state_map = StateMap.among(weights, config.d_model)
            load_into(encoder, weights, directory / _WEIGHTS)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{directory}: the text encoder cannot be loaded: {reason}") from error
        return encoder.eval()


def _spaced(place: Tensor, lengths: Tensor, most: int) -> Tensor:
    """Positions of frames as far apart as in speech; closer where a sentence would not fit. → [batch, frames]"""
    spacing = (most / (lengths + 1)).clamp(max=_SPACING)[:, None] / _FRAMES
    return ((place + 0.5) * spacing).long().clamp(max=most - 1)
