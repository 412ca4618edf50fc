"""Linear layers laid out for the processor that runs them.

A single step multiplies a handful of rows by every weight of the decoder; most of its time goes into rearranging these
weights for the multiplication. Here that is done once, and again as soon as a parameter has changed. Whole texts gain
as well where oneDNN knows the processor better than the library torch multiplies with, as it does AMD's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Projection = Callable[[Tensor], Tensor]  # [..., inputs] → [..., outputs]
Pack = Callable[..., Projection]  # of one or several nn.Linear, see ``plain`` and ``Packing``

_SMALL = 1 << 16  # numbers: for smaller weights oneDNN's own preparations cost more than they save
_TINY = 1e-8  # the smallest of scales: a row may be all zeros
_ZERO = 128  # what stands for zero among inputs in eight bits, which have no sign
_ROWS = 16  # for which the weights are laid out; other numbers are right as well, and nearly as fast


class Packing:
    """The packed linear layers of one model.

    int8: weights and, as they come, inputs in eight bits: two to three times as fast, and no longer exactly the same
    """

    def __init__(self, int8: bool = False) -> None:
        self.int8 = int8
        self._kept: dict[tuple[int, ...], tuple[object, Projection]] = {}

    def __call__(self, *layers: nn.Linear, few_rows: bool = False) -> Projection:
        """One projection for several layers of the same input, their outputs side by side.

        few_rows: as in single steps, where numbers published in sixteen bits are as fast as eight bits, and exact
        """
        parameters = [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]
        return self._current(parameters, lambda: fused(*layers), few_rows)

    def product(self, weight: Tensor, bias: Tensor | None = None, few_rows: bool = False) -> Projection:
        """The projection by a weight that is no layer's. weight: [outputs, inputs], bias: [outputs]"""
        parameters = [weight] if bias is None else [weight, bias]
        return self._current(parameters, lambda: (weight.detach(), None if bias is None else bias.detach()), few_rows)

    def _current(
        self, parameters: Sequence[Tensor], get: Callable[[], tuple[Tensor, Tensor | None]], few_rows: bool
    ) -> Projection:
        """What was packed, if these parameters still are what they were."""
        pack = (_few_rows_rounded if few_rows else _rounded) if self.int8 else _packed
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


def plain(*layers: nn.Linear, few_rows: bool = False) -> Projection:
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
    if _are_halves(weight):
        halves = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, halves)
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        return lambda x: torch.ops.mkldnn._linear_pointwise(x, laid_out, bias, "none", [], "")
    return partial(F.linear, weight=weight, bias=bias)


def _are_halves(weight: Tensor) -> bool:
    """Whether the numbers were published in sixteen bits, and can be multiplied as such."""
    return hasattr(torch.ops.quantized, "linear_prepack_fp16") and torch.equal(weight.half().float(), weight)


def _few_rows_rounded(weight: Tensor, bias: Tensor | None) -> Projection:
    return (_packed if _are_halves(weight) else _int8)(weight, bias)


def _rounded(weight: Tensor, bias: Tensor | None) -> Projection:
    """Of many rows eight bits save no more than bfloat16, which loses much less: rows have to be measured first."""
    return (_bfloat16 if multiplies_bfloat16(weight) else _int8)(weight, bias)


def multiplies_bfloat16(x: Tensor) -> bool:
    """Whether the processor does so at once, summing up in float32."""
    return _on_cpu(x) and hasattr(torch.ops.mkldnn, "_linear_pointwise") and _capable("avx512_bf16")


def _bfloat16(weight: Tensor, bias: Tensor | None) -> Projection:
    laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), _ROWS)

    def project(x: Tensor) -> Tensor:
        y = torch.ops.mkldnn._linear_pointwise(x.bfloat16(), laid_out, None, "none", [], "").float()
        return y if bias is None else y.add_(bias)

    return project


def _int8(weight: Tensor, bias: Tensor | None) -> Projection:
    """Every output and every row of the input has a scale of its own: what is in a row is the same in any company.

    W x = step · (W levels), where a row x is step · levels and the levels are whole numbers.
    """
    if not (_on_cpu(weight) and hasattr(torch.ops.onednn, "qlinear_prepack")):
        return partial(F.linear, weight=weight, bias=bias)
    scales = weight.abs().amax(dim=1).clamp(min=_TINY) / 127
    whole = (weight / scales[:, None]).round().to(torch.int8)
    laid_out = torch.ops.onednn.qlinear_prepack(whole, None)
    zeros, levels = torch.zeros_like(scales, dtype=torch.int32), _levels()

    def project(x: Tensor) -> Tensor:
        step = torch.maximum(x.amax(dim=-1, keepdim=True), -x.amin(dim=-1, keepdim=True)).clamp_(min=_TINY).div_(levels)
        rows = (x / step).add_(_ZERO + 0.5).to(torch.uint8)  # which rounds down
        y = torch.ops.onednn.qlinear_pointwise(
            rows, 1.0, _ZERO, laid_out, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        ).mul_(step)
        return y if bias is None else y.add_(bias)

    return project


@cache
def _levels() -> int:
    """Of an input on either side of zero. Without VNNI, sums of two products of eight bits do not fit their register,
    and seven bits have to do."""
    return 127 if _capable("avx512_vnni") else 63


@cache
def _capable(instructions: str) -> bool:
    """Whether the processor has them; False where torch is too old to say."""
    return bool(getattr(torch.cpu, "get_capabilities", dict)().get(instructions))


def _on_cpu(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
