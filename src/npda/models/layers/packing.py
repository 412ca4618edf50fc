"""Linear layers laid out for the processor that runs them.

A single step multiplies a handful of rows by every weight of the decoder; most of its time goes into rearranging these
weights for the multiplication. Here that is done once, and again as soon as a parameter has changed. Whole texts gain
as well where oneDNN knows the processor better than the library torch multiplies with, as it does AMD's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Projection = Callable[[Tensor], Tensor]  # [..., inputs] → [..., outputs]
Pack = Callable[..., Projection]  # of one or several nn.Linear, see ``plain`` and ``Packing``

_SMALL = 1 << 16  # numbers: for smaller weights oneDNN's own preparations cost more than they save
_ROWS = 16  # for which the weights are laid out; other numbers are right as well, and nearly as fast


class Packing:
    """The packed linear layers of one model.

    int8: weights and, as they come, inputs in eight bits: twice as fast, and no longer exactly the same
    """

    def __init__(self, int8: bool = False) -> None:
        self.int8 = int8
        self._kept: dict[tuple[int, ...], tuple[object, Projection]] = {}

    def __call__(self, *layers: nn.Linear) -> Projection:
        """One projection for several layers of the same input, their outputs side by side."""
        parameters = [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]
        return self._current(parameters, lambda: fused(*layers))

    def product(self, weight: Tensor, bias: Tensor | None = None) -> Projection:
        """The projection by a weight that is no layer's. weight: [outputs, inputs], bias: [outputs]"""
        parameters = [weight] if bias is None else [weight, bias]
        return self._current(parameters, lambda: (weight.detach(), None if bias is None else bias.detach()))

    def _current(self, parameters: Sequence[Tensor], get: Callable[[], tuple[Tensor, Tensor | None]]) -> Projection:
        """What was packed, if these parameters still are what they were."""
        pack = _int8 if self.int8 else _packed
        if any(parameter.is_inference() for parameter in parameters):  # torch does not count their changes
            return pack(*get())
        place = tuple(map(id, parameters))
        state = self.int8, [_state(parameter) for parameter in parameters]
        found = self._kept.get(place)
        if found is None or found[0] != state:
            found = self._kept[place] = state, pack(*get())
        return found[1]

    def __reduce__(self) -> tuple[type[Packing], tuple[bool]]:
        """A copy of a model packs its own weights."""
        return Packing, (self.int8,)


def plain(*layers: nn.Linear) -> Projection:
    """What ``Packing`` gives, in torch's own layout."""
    weight, bias = fused(*layers)
    return partial(F.linear, weight=weight, bias=bias)


def fused(*layers: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of several layers as one. A missing bias counts as zero if another has one."""
    if len(layers) == 1:
        bias = layers[0].bias
        return layers[0].weight.detach(), None if bias is None else bias.detach()
    weight = torch.cat([layer.weight for layer in layers])
    biases = [layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias for layer in layers]
    return weight.detach(), torch.cat(biases).detach()


def _state(parameter: Tensor) -> tuple[int, int]:
    """Where the numbers are and how often they were written over: training and loading change one or the other."""
    return parameter.data_ptr(), parameter._version


def _packed(weight: Tensor, bias: Tensor | None) -> Projection:
    """Float32 in oneDNN's layout, or, if the numbers were published in sixteen bits, those in FBGEMM's: as exact, and
    half as much to read from memory at every step. Neither where it is not to be had or does not pay."""
    if not _on_cpu(weight) or weight.numel() < _SMALL:
        return partial(F.linear, weight=weight, bias=bias)
    if hasattr(torch.ops.quantized, "linear_prepack_fp16") and torch.equal(weight.half().float(), weight):
        halves = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, halves)
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        return lambda x: torch.ops.mkldnn._linear_pointwise(x, laid_out, bias, "none", [], "")
    return partial(F.linear, weight=weight, bias=bias)


def _int8(weight: Tensor, bias: Tensor | None) -> Projection:
    """Each output has a scale of its own, each input tensor one for all of it."""
    if not _on_cpu(weight):
        return partial(F.linear, weight=weight, bias=bias)
    scales = weight.abs().amax(dim=1).clamp(min=1e-8).double() / 127
    with warnings.catch_warnings():  # torch is going to build these tensors in another way
        warnings.simplefilter("ignore", UserWarning)
        whole = torch.quantize_per_channel(weight, scales, torch.zeros_like(scales, dtype=torch.long), 0, torch.qint8)
    laid_out = torch.ops.quantized.linear_prepack(whole, bias)
    # Seven bits of input: without VNNI, sums of two products of eight bits do not fit their register.
    return lambda x: torch.ops.quantized.linear_dynamic(x, laid_out, True)


def _on_cpu(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
