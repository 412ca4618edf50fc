"""What the layers of an encoder may look at."""

from __future__ import annotations

import torch
from torch import Tensor


def attention_mask(mask: Tensor, x: Tensor) -> Tensor | None:
    """To be added to attention scores, of the type of x; None where there is no padding. [batch, source] bool"""
    if bool(mask.all()):
        return None
    closed = torch.zeros_like(mask, dtype=x.dtype).masked_fill_(~mask, torch.finfo(x.dtype).min)
    return closed[:, None, None, :]
