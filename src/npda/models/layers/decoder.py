"""Decoders over known targets and step by step: Speech2Text's, and what those of the transformers library share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from npda.io.errors import InputError
from npda.models.backbone import Memory
from npda.models.languages import check_only
from npda.models.layers.linear import linear
from npda.models.layers.masks import attention_mask, causal_mask
from npda.models.layers.packing import Pack, Packing, plain
from npda.models.layers.stream import Adapt, Choose, StreamLayer, TransformerStream
from npda.text import Vocabulary

if TYPE_CHECKING:  # nobody waits for a family that is not used
    from transformers.models.mbart.modeling_mbart import MBartDecoder
    from transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 import SeamlessM4Tv2Decoder
    from transformers.models.whisper.modeling_whisper import WhisperDecoder

    from npda.models.speech2text_network import Decoder

    # Alike from the embedding up; the first three down to the names of their parts.
    PreLayerNormDecoder = Decoder | WhisperDecoder | MBartDecoder | SeamlessM4Tv2Decoder


def target_prompt(target: Vocabulary, language: str | None, start: int = Vocabulary.eos) -> list[int]:
    """What every target begins with: the start symbol, fairseq's </s>, and the language's tag if there are any."""
    if not target.languages:
        check_only(target.language, language, "write")
        return [start]
    if language is None:
        raise InputError(f"The model translates into {', '.join(target.languages)}: choose a language.")
    return [start, target.language_id(language)]


def decoder_states(
    decoder: Decoder, memory: Memory, tokens: Tensor, adapt: Adapt | None = None, pack: Pack = plain
) -> Tensor:
    """States after the final layer norm. tokens: [batch, length] → [batch, length, dim]"""
    return layer_states(decoder, memory, _embed(decoder, tokens, 0), lambda: stream_layers(decoder, pack), adapt)


def decoder_stream(
    decoder: Decoder, memory: Memory, beam: int, choose: Choose | None = None, pack: Pack = plain
) -> TransformerStream:
    """Begin decoding every sentence of the memory with ``beam`` rows each."""
    embed = partial(_embed, decoder)
    return TransformerStream(stream_layers(decoder, pack), embed, decoder.layer_norm, memory, beam, choose)


def layer_states(
    decoder: PreLayerNormDecoder,
    memory: Memory,
    x: Tensor,
    ready: Callable[[], Sequence[StreamLayer]],
    adapt: Adapt | None = None,
) -> Tensor:
    """The layers and the final norm over embedded tokens x: [batch, length, dim]

    ready: the layers as a stream has them, for when no gradient is asked for
    """
    if not decoder.training and not torch.is_grad_enabled():
        mask = attention_mask(memory.mask, memory.states)
        for index, layer in enumerate(ready()):
            x = layer.follow(x, memory.states, mask)
            x = x if adapt is None else adapt(index, x)
        return memory.mapped(decoder.layer_norm(x))
    causal, mask = causal_mask(x), attention_mask(memory.mask, memory.states)
    x = dropout(x, decoder.dropout, decoder.training)
    for index, layer in enumerate(decoder.layers):
        if decoder.training and torch.rand([]) < decoder.layerdrop:
            continue
        x = layer(x, causal, memory.states, encoder_attention_mask=mask)
        x = x if adapt is None else adapt(index, x)
    return memory.mapped(decoder.layer_norm(x))


def _embed(decoder: Decoder, tokens: Tensor, position: int) -> Tensor:
    """Tokens [rows, n] with their positions, the first of them given. → [rows, n, dim]"""
    embedded = decoder.embed_tokens(tokens) * decoder.embed_scale
    return embedded + positions(decoder.embed_positions, position, tokens.shape[1])


def positions(table: Any, start: int, length: int) -> Tensor:
    """Sinusoidal positions start … start + length − 1; as in fairseq they count from padding_idx + 1."""
    first = table.padding_idx + 1 + start
    if first + length > table.weights.shape[0]:
        table.make_weights(first + length + table.offset, table.embedding_dim, table.padding_idx)
    return table.weights[first : first + length]


def output_scores(states: Tensor, weight: Tensor, only: Tensor | None = None, packing: Packing | None = None) -> Tensor:
    """states: [..., dim], weight: [vocabulary, dim] → [..., vocabulary], or the columns of the tokens ``only``

    packing: keeps the weight laid out where no gradient is asked for
    """
    if packing is not None and only is None and not torch.is_grad_enabled():
        return packing.product(weight, few_rows=True)(states)
    return linear(states, weight if only is None else weight[only])


def stream_layers(decoder: PreLayerNormDecoder, pack: Pack = plain) -> list[StreamLayer]:
    """What single steps need of the layers. pack: how their projections are laid out, a model's ``Packing``"""
    layers: Any = decoder.layers  # pyright sees only Tensor | Module inside
    return [
        stream_layer(
            (layer.self_attn_layer_norm, layer.self_attn),
            (layer.encoder_attn_layer_norm, layer.encoder_attn),
            (layer.final_layer_norm, layer.fc1, layer.fc2),
            layer.activation_fn,
            pack,
        )
        for layer in layers
    ]


def stream_layer(
    own: tuple[nn.LayerNorm, Any],
    cross: tuple[nn.LayerNorm, Any],
    ffn: tuple[nn.LayerNorm, nn.Linear, nn.Linear],
    activation: Callable[[Tensor], Tensor],
    pack: Pack = plain,
) -> StreamLayer:
    """One layer, whatever its family calls the parts: norm and attention to what was written, norm and attention to
    the memory, norm and projections of the feed-forward network."""
    (self_norm, self_attn), (cross_norm, cross_attn) = own, cross
    ffn_norm, fc1, fc2 = ffn
    return StreamLayer(
        heads=self_attn.num_heads,
        self_norm=self_norm,
        qkv=pack(self_attn.q_proj, self_attn.k_proj, self_attn.v_proj, few_rows=True),
        self_out=pack(self_attn.out_proj, few_rows=True),
        cross_norm=cross_norm,
        cross_q=pack(cross_attn.q_proj, few_rows=True),
        cross_kv=pack(cross_attn.k_proj, cross_attn.v_proj),
        cross_out=pack(cross_attn.out_proj, few_rows=True),
        ffn_norm=ffn_norm,
        fc1=pack(fc1, few_rows=True),
        fc2=pack(fc2, few_rows=True),
        activation=activation,
        rounded=isinstance(pack, Packing) and pack.int8,
    )
