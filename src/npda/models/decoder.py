"""The decoder all models here share, transformers' ``Speech2TextDecoder``: over known targets, and step by step."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextDecoder

from npda.models.backbone import Memory
from npda.models.stream import StreamLayer, TransformerStream, fuse


def decoder_states(decoder: Speech2TextDecoder, memory: Memory, tokens: Tensor) -> Tensor:
    """States after the final layer norm. tokens: [batch, length] → [batch, length, dim]"""
    return decoder(
        input_ids=tokens,
        encoder_hidden_states=memory.states,
        encoder_attention_mask=memory.mask,
        use_cache=False,
    ).last_hidden_state


def decoder_stream(decoder: Speech2TextDecoder, memory: Memory, beam: int) -> TransformerStream:
    """Begin decoding every sentence of the memory with ``beam`` rows each."""

    def embed(tokens: Tensor, position: int) -> Tensor:
        embedded = decoder.embed_tokens(tokens) * decoder.embed_scale
        return embedded + positions(decoder.embed_positions, position, tokens.shape[1])

    return TransformerStream(_stream_layers(decoder), embed, decoder.layer_norm, memory, beam)


def positions(table: Any, start: int, length: int) -> Tensor:
    """Sinusoidal positions start … start + length − 1; as in fairseq they count from padding_idx + 1."""
    first = table.padding_idx + 1 + start
    if first + length > table.weights.shape[0]:
        table.make_weights(first + length + table.offset, table.embedding_dim, table.padding_idx)
    return table.weights[first : first + length]


def _stream_layers(decoder: Speech2TextDecoder) -> list[StreamLayer]:
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
