"""Digests of weights, by which models are told apart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Changes with any number, name, type or shape. At least one weight: nothing would be like any other nothing."""
    if not weights:
        raise ValueError("there are no weights to tell a model by")
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
