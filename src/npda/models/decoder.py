"""Decoders of transformers over known targets and step by step: Speech2Text's own, and what others share with it."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextDecoder
from transformers.models.whisper.modeling_whisper import WhisperDecoder

from npda.errors import InputError
from npda.models.backbone import Memory
from npda.models.stream import Adapt, Choose, StreamLayer, TransformerStream, fuse
from npda.text import Vocabulary

PreLayerNormDecoder = Speech2TextDecoder | WhisperDecoder  # alike from the embedding up, down to the names


def target_prompt(target: Vocabulary, language: str | None, start: int = Vocabulary.eos) -> list[int]:
    """What every target begins with: the start symbol, fairseq's </s>, and the language's tag if there are any."""
    if not target.languages:
        return [start]
    if language is None:
        raise InputError(f"The model translates into {', '.join(target.languages)}: choose a language.")
    return [start, target.language_id(language)]


def decoder_states(decoder: Speech2TextDecoder, memory: Memory, tokens: Tensor, adapt: Adapt | None = None) -> Tensor:
    """States after the final layer norm. tokens: [batch, length] → [batch, length, dim]"""
    return layer_states(decoder, memory, _embed(decoder, tokens, 0), adapt)


def decoder_stream(
    decoder: Speech2TextDecoder, memory: Memory, beam: int, choose: Choose | None = None
) -> TransformerStream:
    """Begin decoding every sentence of the memory with ``beam`` rows each."""
    embed = partial(_embed, decoder)
    return TransformerStream(stream_layers(decoder), embed, decoder.layer_norm, memory, beam, choose)


def layer_states(decoder: PreLayerNormDecoder, memory: Memory, x: Tensor, adapt: Adapt | None = None) -> Tensor:
    """The layers and the final norm over embedded tokens x: [batch, length, dim]"""
    causal = create_causal_mask(decoder.config, x, None, past_key_values=None)
    mask = create_bidirectional_mask(decoder.config, x, memory.mask, encoder_hidden_states=memory.states)
    x = dropout(x, decoder.dropout, decoder.training)
    for index, layer in enumerate(decoder.layers):
        if decoder.training and torch.rand([]) < decoder.layerdrop:
            continue
        x = layer(x, causal, memory.states, encoder_attention_mask=mask, use_cache=False)
        x = x if adapt is None else adapt(index, x)
    return decoder.layer_norm(x)


def _embed(decoder: Speech2TextDecoder, tokens: Tensor, position: int) -> Tensor:
    """Tokens [rows, n] with their positions, the first of them given. → [rows, n, dim]"""
    embedded = decoder.embed_tokens(tokens) * decoder.embed_scale
    return embedded + positions(decoder.embed_positions, position, tokens.shape[1])


def positions(table: Any, start: int, length: int) -> Tensor:
    """Sinusoidal positions start … start + length − 1; as in fairseq they count from padding_idx + 1."""
    first = table.padding_idx + 1 + start
    if first + length > table.weights.shape[0]:
        table.make_weights(first + length + table.offset, table.embedding_dim, table.padding_idx)
    return table.weights[first : first + length]


def stream_layers(decoder: PreLayerNormDecoder) -> list[StreamLayer]:
    """What single steps need of the layers."""
    layers: Any = decoder.layers  # pyright sees only Tensor | Module inside
    return [
        StreamLayer(
            heads=layer.self_attn.num_heads,
            self_norm=layer.self_attn_layer_norm,
            qkv=fuse(layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj),
            self_out=layer.self_attn.out_proj,
            cross_norm=layer.encoder_attn_layer_norm,
            cross_q=layer.encoder_attn.q_proj,
            cross_kv=fuse(layer.encoder_attn.k_proj, layer.encoder_attn.v_proj),
            cross_out=layer.encoder_attn.out_proj,
            ffn_norm=layer.final_layer_norm,
            fc1=layer.fc1,
            fc2=layer.fc2,
            activation=layer.activation_fn,
        )
        for layer in layers
    ]
