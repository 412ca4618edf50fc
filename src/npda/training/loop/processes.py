"""What depends on the machine: several processes, their devices, half precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from accelerate.state import PartialState
from torch import Tensor

from npda.models.devices import choose_device, choose_dtype
from npda.training.loop.settings import Precision


def running() -> PartialState:
    """This process among those that accelerate or torchrun has started; alone if neither has."""
    # Without being told, accelerate takes processes without an accelerator for unrelated ones.
    return PartialState(cpu=not torch.accelerator.is_available())


def add_up(values: Tensor, processes: PartialState) -> Tensor:
    """The sum of a tensor over the processes, in place."""
    if processes.num_processes > 1:
        shared = values.to(processes.device)
        torch.distributed.all_reduce(shared)
        values.copy_(shared)
    return values


def training_device(processes: PartialState, device: str | torch.device = "auto") -> torch.device:
    """The device that was chosen; each of several processes has its own from accelerate."""
    if processes.num_processes > 1:
        return torch.device(processes.device or "cpu")
    return choose_device(device)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """The context of a forward pass: products in bfloat16 if wanted and if the device is made for them."""
    if precision == "bfloat16" and _multiplies_bfloat16(device):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def _multiplies_bfloat16(device: torch.device) -> bool:
    """GPUs do, and processors with AVX-512 BF16 or AMX; others take ten times as long as for float32."""
    if device.type != "cpu":
        return choose_dtype(device) == torch.bfloat16
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
