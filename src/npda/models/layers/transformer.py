"""Pre-norm transformer layers, as fairseq and transformers' Speech2Text have them, down to the names of the parameters.

They serve training. Where no gradient is asked for, ``SelfLayer`` and ``StreamLayer`` compute the same with packed
weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, relu, scaled_dot_product_attention, silu

from npda.models.layers.linear import Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": relu, "gelu": gelu, "silu": silu, "swish": silu}


@dataclass(frozen=True)
class LayerSize:
    """Of one layer. dropout: of what a block adds; attention_dropout: of the weights of attention;
    activation_dropout: inside the feed-forward network"""

    dim: int
    heads: int
    ffn: int
    activation: str = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0


class Attention(nn.Module):
    """Scaled dot-product attention with several heads."""

    def __init__(self, size: LayerSize) -> None:
        super().__init__()
        self.num_heads = size.heads
        self.dropout = size.attention_dropout
        self.k_proj = Linear(size.dim, size.dim)
        self.v_proj = Linear(size.dim, size.dim)
        self.q_proj = Linear(size.dim, size.dim)
        self.out_proj = Linear(size.dim, size.dim)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """x: [batch, n, dim]; memory: [batch, source, dim], x itself in self-attention; mask: added to the scores"""
        query, key, value = map(self._split, (self.q_proj(x), self.k_proj(memory), self.v_proj(memory)))
        share = self.dropout if self.training else 0.0
        attended = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=share)
        return self.out_proj(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        """[batch, n, dim] → [batch, heads, n, d]"""
        return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2)


class _Layer(nn.Module):
    """What encoder and decoder layers share."""

    fc1: nn.Linear
    fc2: nn.Linear
    final_layer_norm: nn.LayerNorm

    def __init__(self, size: LayerSize) -> None:
        super().__init__()
        self.size = size
        self.activation_fn = ACTIVATIONS[size.activation]

    def feed_forward(self, x: Tensor) -> Tensor:
        inner = self.activation_fn(self.fc1(self.final_layer_norm(x)))
        inner = dropout(inner, self.size.activation_dropout, self.training)
        return x + self.dropped(self.fc2(inner))

    def dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.size.dropout, self.training)


class EncoderLayer(_Layer):
    """Attention to the whole of an utterance, then the feed-forward network."""

    def __init__(self, size: LayerSize) -> None:
        super().__init__(size)
        self.self_attn = Attention(size)
        self.self_attn_layer_norm = nn.LayerNorm(size.dim)
        self.fc1 = Linear(size.dim, size.ffn)
        self.fc2 = Linear(size.ffn, size.dim)
        self.final_layer_norm = nn.LayerNorm(size.dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x: [batch, n, dim]; mask: [batch, 1, 1, n] to be added to the scores of attention"""
        normed = self.self_attn_layer_norm(x)
        return self.feed_forward(x + self.dropped(self.self_attn(normed, normed, mask)))


class DecoderLayer(_Layer):
    """Attention to what was written, attention to the memory, then the feed-forward network."""

    def __init__(self, size: LayerSize) -> None:
        super().__init__(size)
        self.self_attn = Attention(size)
        self.self_attn_layer_norm = nn.LayerNorm(size.dim)
        self.encoder_attn = Attention(size)
        self.encoder_attn_layer_norm = nn.LayerNorm(size.dim)
        self.fc1 = Linear(size.dim, size.ffn)
        self.fc2 = Linear(size.ffn, size.dim)
        self.final_layer_norm = nn.LayerNorm(size.dim)

    def forward(self, x: Tensor, causal: Tensor, memory: Tensor, encoder_attention_mask: Tensor | None) -> Tensor:
        """x: [batch, n, dim]; causal: [1, 1, n, n]; memory: [batch, source, dim] and its mask [batch, 1, 1, source];
        both masks are added to the scores"""
        normed = self.self_attn_layer_norm(x)
        x = x + self.dropped(self.self_attn(normed, normed, causal))
        x = x + self.dropped(self.encoder_attn(self.encoder_attn_layer_norm(x), memory, encoder_attention_mask))
        return self.feed_forward(x)


class SinusoidalPositions(nn.Module):
    """Sinusoidal positions as in fairseq: sines in the first half, cosines in the second; counted from padding_idx + 1.

    weights: [positions + offset, dim], which is not saved
    """

    weights: Tensor
    offset = 2

    def __init__(self, positions: int, dim: int, padding_idx: int) -> None:
        super().__init__()
        self.padding_idx = padding_idx
        self.embedding_dim = dim
        self.register_buffer("weights", self._table(positions + self.offset), persistent=False)

    def make_weights(self, positions: int, dim: int, padding_idx: int) -> None:
        """A longer table, where and of which type the present one is."""
        self.weights = self._table(positions).to(self.weights)

    def _table(self, positions: int) -> Tensor:
        """On the processor even while weights are made on the device "meta", which has no numbers."""
        half = self.embedding_dim // 2
        frequencies = torch.exp(torch.arange(half, device="cpu").float() * -(math.log(10_000) / (half - 1)))
        angles = torch.arange(positions, device="cpu").float()[:, None] * frequencies
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
        table = nn.functional.pad(table, (0, self.embedding_dim % 2))
        table[self.padding_idx] = 0
        return table


class TokenEmbedding(nn.Embedding):
    """One that can be made on the device "meta", where there is nothing to fill: torch would import its compiler."""

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


def initialize(module: nn.Module, std: float) -> None:
    """Random weights of one module, unless it is on the device "meta": normal, with biases of 0, and nothing for a
    padding token."""
    if any(parameter.is_meta for parameter in module.parameters(recurse=False)):
        return
    if isinstance(module, nn.Linear | nn.Conv1d | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear | nn.Conv1d) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx] = 0
