"""Digests of weights, by which models are told apart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

_DECODERS = {"decoder", "text_decoder"}  # what transformers' models call theirs


def decoder_digest(backbone: torch.nn.Module) -> str:
    """Of the weights that decoder states depend on; of rounded ones, what it was before."""
    in_full = getattr(backbone, "digest_in_full", None)
    if in_full is not None:
        return in_full
    weights = backbone.state_dict()
    return weights_digest({name: weights[name] for name in weights if not _DECODERS.isdisjoint(name.split("."))})


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Changes with any number, name, type or shape."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
