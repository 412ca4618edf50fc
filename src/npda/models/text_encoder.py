"""The second way into the decoder: a transformer over the tokens of a transcript (section 3.1 of the paper)."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.records import read_json
from npda.models.backbone import Memory
from npda.models.layers.masks import attention_mask
from npda.models.layers.packing import Packing
from npda.models.layers.stream import SelfLayer
from npda.models.state_map import StateMap
from npda.models.weights import load_into, read_weights

_CONFIG = "config.json"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class TextEncoderSize:
    """dim is the decoder's; the paper has 12 layers (6 when multilingual) as wide as the speech encoder's.

    Without layers it is an embedding only, read through the layers of the speech encoder (the paper's ablation).
    """

    vocabulary: int
    dim: int
    layers: int
    heads: int
    ffn: int
    dropout: float = 0.1


class TextEncoder(nn.Module):
    """Token embedding, sinusoidal positions, pre-norm transformer layers: θe' of eq. 4, random at the start."""

    def __init__(self, size: TextEncoderSize, pad: int = 1) -> None:
        super().__init__()
        self.size = size
        self.packing = Packing()  # for everything but training
        self.state_map: StateMap | None = None  # fitted once all else is trained
        self.embedding = nn.Embedding(size.vocabulary, size.dim, padding_idx=pad)
        nn.init.normal_(self.embedding.weight, std=size.dim**-0.5)
        layer = nn.TransformerEncoderLayer(
            size.dim, size.heads, size.ffn, size.dropout, batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(size.dim) if size.layers else None
        self.layers = nn.TransformerEncoder(layer, size.layers, norm, enable_nested_tensor=False)
        for parameter in self.layers.parameters():  # the copies of one layer must not start alike
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def embed(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Scaled embeddings [batch, length, dim] without positions, and their mask [batch, length]."""
        mask = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        return self.embedding(tokens) * math.sqrt(self.size.dim), mask

    def forward(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """tokens: [batch, length] right-padded, lengths: [batch]"""
        x, mask = self.embed(tokens, lengths)
        x = x + positions(0, tokens.shape[1], self.size.dim).to(x)
        x = nn.functional.dropout(x, self.size.dropout, self.training)
        if self.training or torch.is_grad_enabled():
            return Memory(self.layers(x, src_key_padding_mask=~mask), mask, state_map=self.state_map)
        attention = attention_mask(mask, x)
        for layer in self.ready():
            x = layer(x, attention)
        assert self.layers.norm is not None
        return Memory(self.layers.norm(x), mask, state_map=self.state_map)

    def ready(self) -> list[SelfLayer]:
        """The layers for when no gradient is asked for."""
        return [
            SelfLayer(
                heads=layer.self_attn.num_heads,
                self_norm=layer.norm1,
                qkv=self.packing.product(layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias),
                self_out=self.packing(layer.self_attn.out_proj),
                ffn_norm=layer.norm2,
                fc1=self.packing(layer.linear1),
                fc2=self.packing(layer.linear2),
                activation=layer.activation,
            )
            for layer in cast(Any, self.layers.layers)
        ]

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        with atomic_write(directory / _WEIGHTS) as temporary:
            save_file(self.state_dict(), temporary)
        with atomic_write(directory / _CONFIG) as temporary:
            temporary.write_text(json.dumps(asdict(self.size), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> TextEncoder:
        directory = Path(directory)
        try:
            size = TextEncoderSize(**read_json(directory / _CONFIG))
            encoder, weights = cls(size), read_weights(directory / _WEIGHTS)
            encoder.state_map = StateMap.among(weights, size.dim)
            load_into(encoder, weights, directory / _WEIGHTS)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{directory}: the text encoder cannot be loaded: {reason}") from error
        return encoder.eval()


def positions(start: int, length: int, dim: int) -> Tensor:
    """Sinusoidal positions (Vaswani et al. 2017) start … start + length − 1. → [length, dim]"""
    frequencies = torch.exp(torch.arange(0, dim, 2) * (-math.log(10_000.0) / dim))
    angles = torch.arange(start, start + length)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
