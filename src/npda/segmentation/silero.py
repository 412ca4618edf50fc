"""The network of the package silero-vad, which has learnt what speech sounds like.

The weights are the package's own. The network is computed here for many frames in one call, of which only the recurrent
cell goes one by one: that takes a thirtieth of the time, and detectors of several recordings share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

_CONTEXT = 64  # samples of the frame before
_STEP = 128  # samples from one spectrum to the next
_DIM = 128
_STRIDES = (1, 2, 2, 1)  # of the convolutions


class _Network:
    """For 16 kHz. It remembers nothing, so that all detectors of a process share it."""

    def __init__(self) -> None:
        # Importing the package takes seconds, and sets the number of threads of the process.
        spec = find_spec("silero_vad")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        path = Path(next(iter(spec.submodule_search_locations))) / "data" / "silero_vad.jit"
        weights: dict[str, Any] = torch.jit.load(path, map_location="cpu")._model.state_dict()
        self.spectrum = weights["stft.forward_basis_buffer"]
        places = range(len(_STRIDES))
        self.convolutions = [
            (weights[f"encoder.{i}.reparam_conv.weight"], weights[f"encoder.{i}.reparam_conv.bias"]) for i in places
        ]
        self.cell = torch.nn.LSTM(_DIM, _DIM).requires_grad_(False)
        self.cell.load_state_dict(
            {f"{name}_l0": weights[f"decoder.rnn.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        )
        self.out, self.bias = weights["decoder.decoder.2.weight"][0], weights["decoder.decoder.2.bias"]

    def encoded(self, heard: torch.Tensor) -> torch.Tensor:
        """Frames with what comes before them, [n, 576] → [n, 128]."""
        x = F.pad(heard, (0, _CONTEXT), "reflect")[:, None]
        x = F.conv1d(x, self.spectrum, stride=_STEP)  # [n, 258, 4], real parts before imaginary ones
        half = x.shape[1] // 2
        x = (x[:, :half].square() + x[:, half:].square()).sqrt()
        for (weight, bias), stride in zip(self.convolutions, _STRIDES, strict=True):
            x = F.conv1d(x, weight, bias, stride, padding=1).relu()
        return x[:, :, 0]


_network = cache(_Network)


class Silero:
    """A ``Detector``."""

    name = "silero-vad"

    def __init__(self) -> None:
        self._network = _network()
        self._state = (torch.zeros(1, _DIM), torch.zeros(1, _DIM))
        self._before = torch.zeros(1, _CONTEXT)

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        if len(frames) == 0:
            return np.empty(0, np.float32)
        network = self._network
        with torch.inference_mode(), _one_thread():
            heard = torch.from_numpy(np.array(frames, np.float32, order="C"))  # [n, 512]
            ends = heard[:, -_CONTEXT:]
            heard = torch.cat([torch.cat([self._before, ends[:-1]]), heard], dim=1)
            self._before = ends[-1:].clone()
            states, self._state = network.cell(network.encoded(heard), self._state)  # [n, 128]
            return (states.relu() @ network.out + network.bias).sigmoid()[:, 0].numpy()


@contextmanager
def _one_thread() -> Iterator[None]:
    """A frame is so little work that several threads mostly wait for each other: dozens of times longer when busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
