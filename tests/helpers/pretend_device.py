"""An accelerator that every machine has: it computes on the processor, but keeps its tensors apart.

Inside ``PretendDevice()`` the device ``DEVICE`` exists. Its tensors know numbers that the processor computes, so that
results can be compared, and obey the rules of a GPU: an operation that mixes them with tensors of the processor raises
``MixedDevices``, and so does NumPy. It is stricter than CUDA, which takes indices of the processor, too.

The name is that of a device torch knows and nobody has; autograd runs its nodes in the thread of the caller.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

DEVICE = torch.device("lazy", 0)
_CPU = torch.device("cpu")

aten = torch.ops.aten
_COPIES = {aten.copy_, aten.copy, aten._to_copy, aten.to}
# As torch does, these take a single number from anywhere, as all elementwise operations do.
_TAKE_NUMBERS = {aten.masked_fill, aten.masked_fill_, aten.fill_, aten.fill, aten.index_put_, aten.where}


class MixedDevices(RuntimeError):
    """Somebody forgot to move a tensor."""


class PretendTensor(Tensor):
    """A tensor of the pretend device around one of the processor."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> PretendTensor:
        with torch.inference_mode(inside.is_inference()):  # a view of a parameter is none, whatever the mode
            tensor = Tensor._make_wrapper_subclass(
                cls, inside.size(), strides=inside.stride(), storage_offset=inside.storage_offset(),
                dtype=inside.dtype, layout=inside.layout, device=DEVICE,
            )  # fmt: skip
        tensor.inside = inside
        return tensor

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inside"], None

    @staticmethod
    def __tensor_unflatten__(tensors: dict[str, Tensor], *_: Any) -> PretendTensor:
        return PretendTensor(tensors["inside"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"PretendTensor({self.inside})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copy: Tensor = PretendTensor(self.inside.detach().clone())
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, requires_grad=self.requires_grad)
        memo[id(self)] = copy
        return copy

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise MixedDevices("NumPy cannot see the memory of an accelerator: call cpu() first")

    def tolist(self) -> Any:
        return self.inside.tolist()

    def data_ptr(self) -> int:
        return self.inside.data_ptr()

    def untyped_storage(self) -> Any:
        return self.inside.untyped_storage()


class PretendDevice(TorchDispatchMode):
    """While it is entered, tensors can be moved to ``DEVICE`` and made there."""

    def __enter__(self) -> PretendDevice:
        # torch.tensor(…, device=…) then makes a tensor of the processor first, and moves it.
        self._before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        return super().__enter__()

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)
        torch._C._set_only_lift_cpu_tensors(self._before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves, _ = tree_flatten((args, kwargs))
    here = [leaf for leaf in leaves if isinstance(leaf, PretendTensor)]
    there = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, PretendTensor)]
    devices = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
    if here and there:
        _check(func, there)
    on_device = _is_device(devices[0]) if devices else bool(here)
    if func.overloadpacket is aten.copy_:
        _unwrap(args[0]).copy_(_unwrap(args[1]))
        return args[0]
    result = func(*_elsewhere(args), **_elsewhere(kwargs))
    if not on_device:
        return result
    result = tree_map_only(Tensor, _wrap, result)
    if not here:
        return result
    # What an operation writes to or looks into stays the same tensor outside, too.
    return return_and_correct_aliasing(func, args, kwargs, result)


def _check(func: Any, others: list[Tensor]) -> None:
    if func.overloadpacket in _COPIES:
        return
    numbers = torch.Tag.pointwise in func.tags or func.overloadpacket in _TAKE_NUMBERS
    if not numbers or any(other.ndim for other in others):
        shapes = ", ".join(str(list(other.shape)) for other in others)
        raise MixedDevices(f"{func} mixes tensors of the accelerator with tensors of the processor of shape {shapes}")


def _elsewhere(arguments: Any) -> Any:
    """The same arguments for the processor."""
    leaves, spec = tree_flatten(arguments)
    return tree_unflatten([_CPU if _is_device(leaf) else _unwrap(leaf) for leaf in leaves], spec)


def _is_device(leaf: Any) -> bool:
    return isinstance(leaf, torch.device) and leaf.type == DEVICE.type


def _unwrap(leaf: Any) -> Any:
    return leaf.inside if isinstance(leaf, PretendTensor) else leaf


def _wrap(tensor: Tensor) -> PretendTensor:
    return tensor if isinstance(tensor, PretendTensor) else PretendTensor(tensor)
