"""Where a model computes, and in which precision: the processor, or an accelerator such as a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch

from npda.io.errors import InputError

Precision = Literal["auto", "float32", "bfloat16", "float16"]

VARIABLE = "NPDA_DEVICE"  # the device of a verb and of the processes it starts

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device of a name: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` …; ``auto`` is the one that the environment variable
    NPDA_DEVICE names or else the accelerator, if there is one.

    A name whose device this machine lacks is refused; a ``torch.device`` is taken as it is.
    """
    if isinstance(name, torch.device):
        return name
    name = os.environ.get(VARIABLE, "auto") if name == "auto" else name
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(
            f"There is no kind of device called {name!r}: choose auto, cpu, cuda, cuda:1 or mps."
        ) from None
    if device.type == "cpu":
        return torch.device("cpu")
    count = torch.accelerator.device_count() if accelerator is not None and accelerator.type == device.type else 0
    if (device.index or 0) >= count:
        there = ", ".join(["cpu", *([str(accelerator)] if accelerator is not None else [])])
        raise InputError(f"There is no device {name!r} that torch {torch.__version__} can use here, only {there}.")
    return device


def choose_dtype(device: torch.device, precision: Precision = "auto") -> torch.dtype:
    """What a frozen model computes in: ``auto`` is float32 on the processor; on accelerators it is bfloat16 where the
    hardware multiplies it, else float16."""
    if precision not in ("auto", *_DTYPES):
        raise InputError(f"The precision must be one of auto, {', '.join(_DTYPES)}, not {precision!r}.")
    if precision != "auto":
        return _DTYPES[precision]
    if device.type == "cpu":
        return torch.float32
    able = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if able else torch.float16


def device_of(model: object) -> torch.device:
    """Where a model's weights are; the processor for a backbone that is no torch module."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((parameter.device for parameter in parameters), torch.device("cpu"))


def dtype_of(model: object) -> torch.dtype:
    """What a model's weights are; float32 for a backbone that is no torch module."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    return next((parameter.dtype for parameter in parameters), torch.float32)


def follow(network: torch.nn.Module, inputs: torch.Tensor) -> None:
    """Move a small network to where its inputs are."""
    if device_of(network) != inputs.device:
        with torch.inference_mode(False):  # parameters made in inference mode could not be trained any more
            network.to(inputs.device)


def to_host(*tensors: torch.Tensor) -> Callable[[], list[np.ndarray]]:
    """Begin to copy tensors to the processor. What it gives waits for them, and not for what the device was told later.

    So the processor can go on with the numbers while the device computes something else.
    """
    if tensors[0].device.type != "cuda":
        return lambda: [tensor.cpu().numpy() for tensor in tensors]
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]  # into pinned memory
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(tensors[0].device))

    def wait() -> list[np.ndarray]:
        copied.synchronize()
        return [copy.numpy() for copy in copies]

    return wait
