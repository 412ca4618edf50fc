"""All gradients in one piece of memory: summed over processes, measured and clipped by one operation each."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Gradients:
    """The gradients of the trained parameters, as views into one flat tensor.

    Summing them here rather than in DistributedDataParallel lets a process sit out a micro-batch, and any
    parameter stay unused in one, without a special case: their share of the sum is zero.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        parameters = list(parameters)
        self.flat = torch.zeros(sum(p.numel() for p in parameters), device=parameters[0].device)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.grad = self.flat[start:end].view_as(parameter)
            start = end

    def clear(self) -> None:
        self.flat.zero_()

    def clip(self, limit: float | None) -> Tensor:
        """Scale the gradients down to the norm ``limit``; return the norm they had."""
        norm = self.flat.norm()
        if limit is not None:
            self.flat.mul_((limit / (norm + 1e-6)).clamp(max=1.0))
        return norm
