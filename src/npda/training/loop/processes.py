"""What depends on the machine: several processes, their devices, half precision."""

from __future__ import annotations

import torch
from accelerate.state import PartialState
from torch import Tensor

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


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """The context of a forward pass: products in bfloat16 if wanted and if the device is made for them."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and _multiplies_bfloat16(device))


def _multiplies_bfloat16(device: torch.device) -> bool:
    """GPUs do, and processors with AVX-512 BF16 or AMX; others take ten times as long as for float32."""
    if device.type != "cpu":
        return device.type == "cuda"
    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
