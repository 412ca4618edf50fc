"""Token-by-token decoding for transformer decoders of the transformers library.

What a step needs is taken from the layers when a batch begins, so it cannot age while a model is trained: query,
key and value projections become one matrix. Cross-attention keys and values are computed once per sentence; the
beams of a sentence are the query positions of one attention call, so nothing of the source is copied per beam.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from npda.models.backbone import Memory

# What comes after a layer: (layer, x [rows, n, dim]) → x; which of them, the prompts [rows, n] decide.
Adapt = Callable[[int, Tensor], Tensor]
Choose = Callable[[Tensor], Adapt]

_GROWTH = 32  # positions by which the self-attention cache grows


@dataclass(frozen=True)
class SelfLayer:
    """One pre-norm layer that sees what was written so far, ready for single steps."""

    heads: int
    self_norm: nn.LayerNorm
    qkv: tuple[Tensor, Tensor]  # weight [3·dim, dim], bias [3·dim]
    self_out: nn.Linear
    ffn_norm: nn.LayerNorm
    fc1: nn.Linear
    fc2: nn.Linear
    activation: Callable[[Tensor], Tensor]

    def attend_self(self, x: Tensor, cache: Tensor, start: int) -> Tensor:
        """Append x to the cache and attend to all of it.

        x: [rows, n, dim]; cache: [2, rows, heads, capacity, d], filled up to ``start``
        """
        query, key, value = F.linear(self.self_norm(x), *self.qkv).chunk(3, dim=-1)
        end = start + x.shape[1]
        cache[0, :, :, start:end] = self._split(key)
        cache[1, :, :, start:end] = self._split(value)
        # A prompt of several tokens comes first (start == 0), a single token needs no mask.
        attended = F.scaled_dot_product_attention(
            self._split(query), cache[0, :, :, :end], cache[1, :, :, :end], is_causal=x.shape[1] > 1
        )
        return x + self.self_out(self._join(attended))

    def feed_forward(self, x: Tensor) -> Tensor:
        return x + self.fc2(self.activation(self.fc1(self.ffn_norm(x))))

    def _split(self, x: Tensor) -> Tensor:
        """[batch, n, dim] → [batch, heads, n, d]"""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _join(self, x: Tensor) -> Tensor:
        """[batch, heads, n, d] → [batch, n, dim]"""
        return x.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class StreamLayer(SelfLayer):
    """One decoder layer: between the two it attends to the memory."""

    cross_norm: nn.LayerNorm
    cross_q: nn.Linear
    cross_kv: tuple[Tensor, Tensor]  # weight [2·dim, dim], bias [2·dim]
    cross_out: nn.Linear

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention keys and values of the memory. [batch, source, dim] → 2 × [batch, heads, source, d]"""
        key, value = F.linear(memory, *self.cross_kv).chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def attend_memory(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """x: [batch·beam, n, dim]; key, value: [batch, heads, source, d]; mask: [batch, 1, 1, source] or None"""
        batch = key.shape[0]
        query = self.cross_q(self.cross_norm(x)).view(batch, -1, x.shape[-1])  # the beams side by side
        attended = F.scaled_dot_product_attention(self._split(query), key, value, attn_mask=mask)
        return x + self.cross_out(self._join(attended).view_as(x))


def fuse(*projections: nn.Linear) -> tuple[Tensor, Tensor]:
    """Several projections of the same input as one. A missing bias counts as zero."""
    weight = torch.cat([p.weight for p in projections])
    bias = torch.cat([p.bias if p.bias is not None else p.weight.new_zeros(p.out_features) for p in projections])
    return weight.detach(), bias.detach()


class TransformerStream:
    """The caches of one batch being decoded; rows are sentence-major: row = sentence · beam + hypothesis."""

    def __init__(
        self,
        layers: Sequence[StreamLayer],
        embed: Callable[[Tensor, int], Tensor],
        final_norm: nn.LayerNorm,
        memory: Memory,
        beam: int,
        choose: Choose | None = None,
    ) -> None:
        """embed: (tokens [rows, n], position of the first) → [rows, n, dim]"""
        self._layers = layers
        self._embed = embed
        self._final_norm = final_norm
        self._beam = beam
        self._choose = choose
        self._adapt: Adapt | None = None
        self._prompts: Tensor | None = None  # [rows, n] the first tokens
        self._length = 0
        self._memory = [layer.remember(memory.states) for layer in layers]
        self._mask = None if bool(memory.mask.all()) else memory.mask[:, None, None, :]
        batch, _, dim = memory.states.shape
        heads = layers[0].heads
        self._cache = memory.states.new_empty(len(layers), 2, batch * beam, heads, 0, dim // heads)

    def step(self, tokens: Tensor) -> Tensor:
        start, self._length = self._length, self._length + tokens.shape[1]
        self._cache = with_room(self._cache, self._length)
        if start == 0:
            self._prompt(tokens)
        x = self._embed(tokens, start)
        for index, (layer, cache, (key, value)) in enumerate(zip(self._layers, self._cache, self._memory, strict=True)):
            x = layer.attend_self(x, cache, start)
            x = layer.attend_memory(x, key, value, self._mask)
            x = layer.feed_forward(x)
            x = x if self._adapt is None else self._adapt(index, x)
        return self._final_norm(x[:, -1])

    def reorder(self, rows: Tensor) -> None:
        filled = self._cache[:, :, :, :, : self._length]
        filled.copy_(filled.index_select(2, rows))

    def keep(self, sentences: Tensor) -> None:
        rows = (sentences[:, None] * self._beam + torch.arange(self._beam, device=sentences.device)).flatten()
        self._cache = self._cache.index_select(2, rows)
        if self._prompts is not None:
            self._prompt(self._prompts.index_select(0, rows))
        self._memory = [
            (key.index_select(0, sentences), value.index_select(0, sentences)) for key, value in self._memory
        ]
        if self._mask is not None:
            self._mask = self._mask.index_select(0, sentences)

    def _prompt(self, prompts: Tensor) -> None:
        if self._choose is not None:
            self._prompts, self._adapt = prompts, self._choose(prompts)


def with_room(cache: Tensor, length: int) -> Tensor:
    """The cache [layers, 2, rows, heads, capacity, d], or a copy with more capacity if ``length`` needs it."""
    if length <= cache.shape[4]:
        return cache
    capacity = max(cache.shape[4] + _GROWTH, length)
    larger = cache.new_empty(*cache.shape[:4], capacity, cache.shape[5])
    larger[..., : cache.shape[4], :] = cache
    return larger
