"""Attention over whole recordings.

torch multiplies here with a library that knows some processors badly: on AMD's, Whisper's half a minute takes a quarter
longer than with oneDNN, which multiplies in ``packing`` too.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from npda.models.layers.packing import multiplies_bfloat16

_LONG = 400  # positions, below which torch's own is as fast
_BLOCK = 250  # queries at a time: their scores stay in the processor's cache


def attend_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, rounded: bool = False) -> Tensor:
    """Scaled dot-product attention of all positions to each other.

    query, key, value: [batch, heads, n, d]; mask: [batch, 1, 1, n] to be added, or None → [batch, heads, n, d]

    rounded: in bfloat16, with sums in float32, where the processor is made for it
    """
    if key.shape[2] < _LONG or not _multiplied_by_onednn(query):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    kind = torch.bfloat16 if rounded and multiplies_bfloat16(query) else torch.float32
    attended = query.new_empty(query.shape[0], query.shape[2], query.shape[1], query.shape[3]).transpose(1, 2)
    for sentence, queries in enumerate((query * query.shape[3] ** -0.5).to(kind)):
        seen = None if mask is None else mask[sentence, 0].to(kind)
        for head, rows in enumerate(queries):
            keys, values = key[sentence, head].to(kind), value[sentence, head].t().to(kind)
            keys, values = keys.contiguous(), values.contiguous()
            for start in range(0, len(rows), _BLOCK):
                scores = _product(rows[start : start + _BLOCK], keys)
                weights = (scores if seen is None else scores.add_(seen)).softmax(dim=-1)
                attended[sentence, head, start : start + _BLOCK] = _product(weights, values)
    return attended


def attend_rounded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of a few queries to keys and values that were rounded, half as much to read at every step.

    query: [batch, heads, n, d]; key, value: [batch, heads, source, d] bfloat16; mask: [batch, 1, 1, source] bool, True
    where there is something, or to be added → [batch, heads, n, d] of the type of the query
    """
    scores = (query * query.shape[3] ** -0.5).to(key.dtype) @ key.transpose(2, 3)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.to(key.dtype)
    return (scores.softmax(dim=-1) @ value).to(query.dtype)


def _multiplied_by_onednn(x: Tensor) -> bool:
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return known and x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_grad_enabled()


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """x: [rows, inputs], weight: [outputs, inputs] → [rows, outputs]"""
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
