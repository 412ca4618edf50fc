"""Checkpoints that survive being killed at any moment, without pickle.

    state-00000400/        the newest state, from which a run goes on
      parameters.safetensors, moments.safetensors, state.json
    best-00000300.safetensors    parameters of the best evaluations, for the final average

Everything is written beside its place, flushed to disk and renamed; what it replaces is removed afterwards.
A state names the best files it relies on, and those go only when a newer state no longer names them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from npda.io.errors import InputError
from npda.io.files import atomic_directory, atomic_write

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass
class State:
    """Where a run is. Nothing random is in it: see ``batching.derived_seed``."""

    update: int = 0  # updates done
    epoch: int = 0  # epochs done
    position: int = 0  # updates done in the epoch under way
    stale: int = 0  # evaluations since the best one
    best: list[tuple[float, int]] = field(default_factory=list)  # dev loss and update, best first
    seconds: float = 0.0  # time spent so far


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def latest(self) -> Path | None:
        """The newest complete state."""
        return max(self.directory.glob("state-*"), default=None)

    def save(self, state: State, module: nn.Module, optimizer: Optimizer) -> None:
        """Publish a state, then remove what it makes superfluous."""
        path = self.directory / f"state-{state.update:08d}"
        with atomic_directory(path) as temporary:
            _write(trained(module), temporary / "parameters.safetensors")
            _write(_moments(module, optimizer), temporary / "moments.safetensors")
            (temporary / "state.json").write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
            for file in temporary.iterdir():
                flush(file)
            flush(temporary)
        flush(self.directory)
        self.tidy(path, state)

    def load(self, path: Path, module: nn.Module, optimizer: Optimizer) -> State:
        """Put a state into the module and the optimiser."""
        restore(module, _read(path / "parameters.safetensors"))
        try:
            stored = json.loads((path / "state.json").read_text(encoding="utf-8"))
            state = State(**{**stored, "best": [(loss, update) for loss, update in stored["best"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path / 'state.json'} is damaged ({error}); remove {path}.") from None
        moments, fused = _read(path / "moments.safetensors"), optimizer.defaults["fused"]
        for name, parameter in trainable(module).items():
            optimizer.state[parameter] = {
                # Every parameter takes part in every update, so that one count serves all.
                "step": torch.tensor(float(state.update), device=parameter.device if fused else "cpu"),
                **{m: moments[f"{name}.{m}"].to(parameter.device) for m in _MOMENTS},
            }
        return state

    def keep(self, update: int, module: nn.Module) -> None:
        """Keep the present parameters as one of the best."""
        with atomic_write(self._best(update)) as temporary:
            _write(trained(module), temporary)

    def average(self, updates: Sequence[int]) -> dict[str, Tensor]:
        """The mean of kept parameters; anything but floating point is taken from the first."""
        mean = _read(self._best(updates[0]))
        sums = {name: tensor.double() for name, tensor in mean.items() if tensor.is_floating_point()}
        for update in updates[1:]:
            for name, tensor in _read(self._best(update)).items():
                if name in sums:
                    sums[name] += tensor.double()
        return mean | {name: (total / len(updates)).to(mean[name].dtype) for name, total in sums.items()}

    def tidy(self, latest: Path | None, state: State) -> None:
        """Remove all that the latest state does not rely on, remains of interrupted writing included."""
        if not self.directory.is_dir():
            return
        wanted = {latest, *(self._best(update) for _, update in state.best)}
        for path in self.directory.iterdir():
            if path in wanted:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _best(self, update: int) -> Path:
        return self.directory / f"best-{update:08d}.safetensors"


def trained(module: nn.Module) -> dict[str, Tensor]:
    """What training changes: parameters with a gradient, and buffers such as running means."""
    names = module.state_dict().keys()  # without buffers that are not to be saved
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in names}
    return {name: parameter.detach() for name, parameter in trainable(module).items()} | buffers


@torch.no_grad()
def restore(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy what ``trained`` gave back into the module, in place."""
    own = trained(module)
    if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in tensors.items()}:
        names = sorted(n for n in own.keys() | tensors.keys() if n not in own or n not in tensors) or ["shapes"]
        raise InputError(f"The checkpoint does not fit the model: they differ in {', '.join(names[:3])}.")
    for name, tensor in tensors.items():
        own[name].copy_(tensor)


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen, by name; a shared one only once."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def _moments(module: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}.{m}": optimizer.state[parameter][m] for name, parameter in trainable(module).items() for m in _MOMENTS
    }


def _write(tensors: Mapping[str, Tensor], path: Path) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read ({error}); remove the run's directory and start again.") from None


def flush(path: Path) -> None:
    """Have a file or a directory on the disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
