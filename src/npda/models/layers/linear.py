"""Linear layers for training, multiplied by oneDNN where it can.

On processors that the library torch multiplies with does not know, as AMD's, this takes half the time, forwards and
backwards. ``npda.models.layers.packing`` is for when no gradient is asked for.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_SMALL = 1 << 16  # numbers: for smaller weights oneDNN's own preparations cost more than they save


class Linear(nn.Linear):
    """``nn.Linear`` with the gradients of ``linear``."""

    def forward(self, x: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias. x: [..., inputs]; weight: [outputs, inputs]; bias: [outputs] → [..., outputs]"""
    if not torch.is_grad_enabled() or not _suits(x, weight):
        return torch.nn.functional.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            _product(rows, weight.t()).view_as(x) if for_x else None,
            _product(rows.t(), x.reshape(len(rows), -1).t()) if for_weight else None,
            rows.sum(dim=0) if for_bias else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _suits(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN is there, and both are large matrices of float32 on the processor."""
    here = x.device.type == weight.device.type == "cpu" and x.dtype == weight.dtype == torch.float32
    large = weight.numel() >= _SMALL and x.numel() > 0
    return here and large and not torch.is_autocast_enabled("cpu") and hasattr(torch.ops.mkldnn, "_linear_pointwise")
