"""What the layers of encoders and decoders may look at."""

from __future__ import annotations

import torch
from torch import Tensor


def attention_mask(mask: Tensor, x: Tensor) -> Tensor | None:
    """To be added to attention scores, of the type of x; None where there is no padding. [batch, source] bool"""
    if bool(mask.all()):
        return None
    closed = torch.zeros_like(mask, dtype=x.dtype).masked_fill_(~mask, torch.finfo(x.dtype).min)
    return closed[:, None, None, :]


def causal_mask(x: Tensor) -> Tensor:
    """To be added to the scores of self-attention: every position sees itself and what is before it. → [1, 1, n, n]"""
    length = x.shape[1]
    return x.new_full((length, length), torch.finfo(x.dtype).min).triu(1)[None, None]
