"""The transformer layers of speech encoders of the transformers library that are alike down to the names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from npda.models.layers.masks import attention_mask
from npda.models.layers.packing import Packing
from npda.models.layers.stream import Adapt, SelfLayer


def encoder_states(encoder: Any, x: Tensor, mask: Tensor, packing: Packing, adapt: Adapt | None = None) -> Tensor:
    """Dropout, the layers and the final norm over frames that have their positions.

    encoder: of Speech2Text or Whisper; x: [batch, source, dim]; mask: [batch, source], True where something was heard
    """
    attention = attention_mask(mask, x)
    x = dropout(x, encoder.dropout, encoder.training)
    for index, layer in enumerate(ready_layers(encoder.layers, packing)):
        if encoder.training and torch.rand([]) < encoder.layerdrop:
            continue
        x = layer(x, attention)
        x = x if adapt is None else adapt(index, x)
    return encoder.layer_norm(x)


def ready_layers(layers: nn.ModuleList, packing: Packing) -> Iterable[Callable[..., Tensor]]:
    """The layers themselves where gradients are asked for, else packed ones that compute the same."""
    if layers.training or torch.is_grad_enabled():
        return layers
    return [_ready(layer, packing) for layer in layers]


def _ready(layer: Any, pack: Packing) -> SelfLayer:
    own = layer.self_attn
    return SelfLayer(
        heads=own.num_heads,
        self_norm=layer.self_attn_layer_norm,
        qkv=pack(own.q_proj, own.k_proj, own.v_proj),
        self_out=pack(own.out_proj),
        ffn_norm=layer.final_layer_norm,
        fc1=pack(layer.fc1),
        fc2=pack(layer.fc2),
        activation=layer.activation_fn,
        rounded=pack.int8,
    )
