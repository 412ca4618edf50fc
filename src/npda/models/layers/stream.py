"""Token-by-token decoding for transformer decoders of the transformers library.

The beams of a sentence are the query positions of one attention call, so nothing is copied per beam: not what was
heard, and not what was written either. Whatever any beam of a sentence has written lies in one pool, and a mask tells
whose past is whose; when beams change places, only the mask does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from npda.models.backbone import Memory
from npda.models.layers.attention import attend_all, attend_rounded
from npda.models.layers.packing import Projection, multiplies_bfloat16

# What comes after a layer: (layer, x [rows, n, dim]) → x; which of them, the prompts [rows, n] decide.
Adapt = Callable[[int, Tensor], Tensor]
Choose = Callable[[Tensor], Adapt]

_CACHED = 500  # positions that pass a feed-forward network together: what they become stays in the processor's cache
GROWTH = 32  # positions by which the self-attention cache grows


@dataclass(frozen=True)
class SelfLayer:
    """One pre-norm layer that only sees what it is part of, ready to be used again and again."""

    heads: int
    self_norm: nn.LayerNorm
    qkv: Projection  # [..., dim] → [..., 3·dim]
    self_out: Projection
    ffn_norm: nn.LayerNorm
    fc1: Projection
    fc2: Projection
    activation: Callable[[Tensor], Tensor]
    rounded: bool = field(default=False, kw_only=True)  # whether attention to what was heard may compute in bfloat16

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """All positions see each other. x: [batch, n, dim]; mask: [batch, 1, 1, n] to be added, or None"""
        return self.feed_forward(self.attend(x, mask))

    def attend(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """mask: as above; causal: every position sees those before it and itself, and there is no mask"""
        query, key, value = map(self._split, self.qkv(self.self_norm(x)).chunk(3, dim=-1))
        if causal:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            attended = attend_all(query, key, value, mask, self.rounded)
        return x + self.self_out(self._join(attended))

    def attend_self(self, x: Tensor, cache: Tensor, start: int) -> Tensor:
        """Append x to the cache and attend to all of it.

        x: [rows, n, dim]; cache: [2, rows, heads, capacity, d], filled up to ``start``
        """
        query, key, value = self.qkv(self.self_norm(x)).chunk(3, dim=-1)
        end = start + x.shape[1]
        cache[0, :, :, start:end] = self._split(key)
        cache[1, :, :, start:end] = self._split(value)
        # A prompt of several tokens comes first (start == 0), a single token needs no mask.
        attended = F.scaled_dot_product_attention(
            self._split(query), cache[0, :, :, :end], cache[1, :, :, :end], is_causal=x.shape[1] > 1
        )
        return x + self.self_out(self._join(attended))

    def feed_forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > _CACHED:
            return torch.cat([self.feed_forward(part) for part in x.split(_CACHED, dim=1)], dim=1)
        return x + self.fc2(self.activation(self.fc1(self.ffn_norm(x))))

    def _split(self, x: Tensor) -> Tensor:
        """[batch, n, dim] → [batch, heads, n, d]"""
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def _join(self, x: Tensor) -> Tensor:
        """[batch, heads, n, d] → [batch, n, dim]"""
        return x.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class StreamLayer(SelfLayer):
    """One decoder layer: between the two it attends to the memory."""

    cross_norm: nn.LayerNorm
    cross_q: Projection
    cross_kv: Projection  # [..., dim] → [..., 2·dim]
    cross_out: Projection

    def follow(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """A target that is known. x: [batch, n, dim]; memory: [batch, source, dim]; mask: as for the memory below"""
        x = self.attend(x, causal=True)
        return self.feed_forward(self.attend_memory(x, *self.remember(memory), mask))

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-attention keys and values of the memory. [batch, source, dim] → 2 × [batch, heads, source, d]"""
        kind = torch.bfloat16 if self.rounded and multiplies_bfloat16(memory) else memory.dtype
        key, value = self.cross_kv(memory).to(kind).chunk(2, dim=-1)
        return self._split(key).contiguous(), self._split(value).contiguous()

    def attend_pool(self, x: Tensor, pool: Tensor, start: int, mask: Tensor) -> Tensor:
        """Append x to the pool of its sentence and attend to what the mask shows.

        x: [sentences, n, dim]; pool: [sentences, capacity, 2, dim], filled up to ``start``;
        mask: [sentences, 1, n, start + n] to be added
        """
        sentences, n, dim = x.shape
        qkv = self.qkv(self.self_norm(x))
        end = start + n
        pool[:, start:end] = qkv[..., dim:].view(sentences, n, 2, dim)
        key, value = pool[:, :end].view(sentences, end, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(self._split(qkv[..., :dim]), key, value, attn_mask=mask)
        return x + self.self_out(self._join(attended))

    def attend_memory(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """x: [sentences, n, dim]; key, value: [sentences, heads, source, d]; mask: [sentences, 1, 1, source] or None"""
        query = self._split(self.cross_q(self.cross_norm(x)))
        if key.dtype == query.dtype:
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            attended = attend_rounded(query, key, value, mask)
        return x + self.cross_out(self._join(attended))


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
        self._mapped = memory.mapped
        self._beam = beam
        self._choose = choose
        self._adapt: Adapt | None = None
        self._prompts: Tensor | None = None  # [rows, n] the first tokens
        self._length = 0  # tokens of a hypothesis
        self._memory = [layer.remember(memory.states) for layer in layers]
        self._mask = None if bool(memory.mask.all()) else memory.mask[:, None, None, :]
        batch, _, dim = memory.states.shape
        self._pools = memory.states.new_empty(len(layers), batch, 0, 2, dim)
        # What each beam sees of its sentence's pool, as numbers to be added to attention scores: 0, or −inf.
        self._seen = memory.states.new_zeros(batch, beam, 0)

    def step(self, tokens: Tensor) -> Tensor:
        if self._length == 0:
            return self._begin(tokens)
        return self._advance(tokens, self._beam)

    def _begin(self, prompts: Tensor) -> Tensor:
        """The first tokens [rows, n]: once a sentence where its beams begin alike, as they do in a search."""
        first = prompts.unflatten(0, (-1, self._beam))
        if self._beam == 1 or not bool((first == first[:, :1]).all()):
            self._prompt(prompts)
            return self._advance(prompts, self._beam)
        self._prompt(first[:, 0])
        self._seen = self._seen[:, :1]
        states = self._advance(first[:, 0], 1)
        self._seen = self._seen.expand(-1, self._beam, -1)
        self._prompt(prompts)
        return states.repeat_interleave(self._beam, dim=0)

    def _advance(self, tokens: Tensor, width: int) -> Tensor:
        """tokens: [sentences · width, n] → states after the last of them [sentences · width, dim]"""
        n = tokens.shape[1]
        start = self._seen.shape[2]
        end = start + width * n
        mask, adapt = self._look_back(width, n), self._adapt
        self._pools = with_room(self._pools, 2, end, GROWTH * self._beam)
        x = self._embed(tokens, self._length)
        dim = x.shape[-1]
        x = x.view(-1, width * n, dim)
        for index, (layer, pool, (key, value)) in enumerate(zip(self._layers, self._pools, self._memory, strict=True)):
            x = layer.attend_pool(x, pool, start, mask)
            x = layer.attend_memory(x, key, value, self._mask)
            x = layer.feed_forward(x)
            x = x if adapt is None else adapt(index, x.view(-1, n, dim)).view_as(x)
        self._length += n
        return self._mapped(self._final_norm(x.view(-1, n, dim)[:, -1]))

    def _look_back(self, width: int, n: int) -> Tensor:
        """Whom n new tokens of every beam see: what their beam saw, their own past, themselves. The last stays seen.

        → [sentences, 1, width · n, pool]
        """
        sentences = len(self._seen)
        beams = torch.eye(width, dtype=torch.bool, device=self._seen.device)
        earlier = torch.ones(n, n, dtype=torch.bool, device=self._seen.device).tril()
        allowed = (beams[:, None, :, None] & earlier[None, :, None, :]).reshape(width * n, width * n)
        new = self._seen.new_zeros(width * n, width * n).masked_fill_(~allowed, -torch.inf)
        old = self._seen.repeat_interleave(n, dim=1) if n > 1 else self._seen
        mask = torch.cat([old, new.expand(sentences, -1, -1)], dim=2)
        self._seen = mask[:, n - 1 :: n]
        return mask[:, None]

    def reorder(self, rows: Tensor) -> None:
        self._seen = self._seen.flatten(0, 1).index_select(0, rows).view_as(self._seen)

    def keep(self, sentences: Tensor) -> None:
        self._pools = self._pools.index_select(1, sentences)
        self._seen = self._seen.index_select(0, sentences)
        if self._prompts is not None:
            self._prompt(self._prompts.unflatten(0, (-1, self._beam)).index_select(0, sentences).flatten(0, 1))
        self._memory = [
            (key.index_select(0, sentences), value.index_select(0, sentences)) for key, value in self._memory
        ]
        if self._mask is not None:
            self._mask = self._mask.index_select(0, sentences)

    def _prompt(self, prompts: Tensor) -> None:
        if self._choose is not None:
            self._prompts, self._adapt = prompts, self._choose(prompts)


def with_room(cache: Tensor, dim: int, length: int, growth: int = GROWTH) -> Tensor:
    """The cache, or a copy that is ``growth`` longer in that dimension if ``length`` needs it."""
    capacity = cache.shape[dim]
    if length <= capacity:
        return cache
    shape = list(cache.shape)
    shape[dim] = max(capacity + growth, length)
    larger = cache.new_empty(shape)
    larger.narrow(dim, 0, capacity).copy_(cache)
    return larger
