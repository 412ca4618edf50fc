"""What depends on the machine: several processes, their devices, half precision."""

from __future__ import annotations

import torch
from accelerate.state import PartialState
from torch import Tensor

from npda.training.settings import Precision


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
    """The context of a forward pass: bfloat16 on GPUs if wanted, otherwise without effect."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda" and precision == "bfloat16")
