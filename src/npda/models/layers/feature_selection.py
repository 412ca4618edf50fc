"""Adaptive feature selection (Zhang et al. 2020): gates that learn which frames of the encoder are worth reading.

A gate is a HardConcrete variable (Louizos et al. 2018): between 0 and 1, exactly 0 or 1 with a probability that can be
trained, by a penalty on the expected number of gates that are not 0. The temporal gate of a frame follows from the
frame; a feature gate is the same for all frames. Frames whose gate is closed never reach the decoder.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.records import read_json
from npda.models.backbone import Memory
from npda.models.weights import load_into, read_weights

_BETA, _GAMMA, _ZETA = 2 / 3, -0.1, 1.1  # temperature and the interval that is clipped to [0, 1]: Louizos et al.
# log α of a fresh gate, as in the paper, which has no bias: not 0 in decoding, 0 in one of six draws in training. The
# further open a gate starts, the smaller is the gradient of its penalty.
_FRESH = 0.0

_CONFIG = "config.json"
_WEIGHTS = "model.safetensors"


def hard_concrete(log_alpha: Tensor, noisy: bool) -> Tensor:
    """Gates in [0, 1] of any shape: drawn at random (training), or what stands for them afterwards."""
    logits = log_alpha
    if noisy:
        uniform = torch.rand_like(log_alpha).clamp(1e-6, 1 - 1e-6)
        logits = (uniform.log() - (1 - uniform).log() + log_alpha) / _BETA
    return (logits.sigmoid() * (_ZETA - _GAMMA) + _GAMMA).clamp(0.0, 1.0)


def open_probability(log_alpha: Tensor) -> Tensor:
    """How likely a gate is not 0: the expected L0 norm, in a form that has a gradient."""
    return (log_alpha - _BETA * math.log(-_GAMMA / _ZETA)).sigmoid()


@dataclass(frozen=True)
class Selected:
    """memory: the frames that were kept, moved together

    expected_frames: scalar, how many frames of the batch are expected to be open; expected_features: scalar, likewise
    of the feature dimensions; open_features: how many are open; without feature gates both are all of them
    """

    memory: Memory
    expected_frames: Tensor
    expected_features: Tensor
    open_features: Tensor


class FeatureSelection(nn.Module):
    """features: whether dimensions have gates of their own as well"""

    def __init__(self, dim: int, features: bool = False) -> None:
        super().__init__()
        self.dim = dim
        self.temporal = nn.Linear(dim, 1)  # log α of a frame
        nn.init.zeros_(self.temporal.weight)
        nn.init.constant_(self.temporal.bias, _FRESH)
        self.features = nn.Parameter(torch.full((dim,), _FRESH)) if features else None

    def forward(self, memory: Memory) -> Selected:
        """Scale by the gates and drop what they close. In training mode the gates are drawn at random."""
        log_alpha = self.temporal(memory.states)[..., 0].float()
        gates = hard_concrete(log_alpha, self.training)
        states = memory.states * gates[..., None].to(memory.states)
        expected_features = open_features = states.new_tensor(float(self.dim))
        if self.features is not None:
            feature_gates = hard_concrete(self.features, self.training)
            states = states * feature_gates.to(states)
            expected_features = open_probability(self.features).sum()
            open_features = (feature_gates > 0).sum()
        likeliest = log_alpha.masked_fill(~memory.mask, -torch.inf).argmax(dim=1, keepdim=True)
        # An utterance never loses all its frames: attention to nothing is no number.
        kept = ((gates > 0) & memory.mask).scatter(1, likeliest, True)
        return Selected(
            compact(Memory(states, kept)),
            (open_probability(log_alpha) * memory.mask).sum(),
            expected_features,
            open_features,
        )

    def save_pretrained(self, directory: str | Path) -> None:
        directory = Path(directory)
        with atomic_write(directory / _WEIGHTS) as temporary:
            save_file(self.state_dict(), temporary)
        with atomic_write(directory / _CONFIG) as temporary:
            config = {"dim": self.dim, "features": self.features is not None}
            temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> FeatureSelection:
        directory = Path(directory)
        try:
            selection = cls(**read_json(directory / _CONFIG))
            load_into(selection, read_weights(directory / _WEIGHTS), directory / _WEIGHTS)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{directory}: the feature selection cannot be loaded: {reason}") from error
        return selection.eval()


def compact(memory: Memory) -> Memory:
    """Only what the mask has, in its order, right-padded to the longest sentence that is left."""
    order = torch.argsort((~memory.mask).byte(), dim=1, stable=True)[:, : int(memory.mask.sum(dim=1).max())]
    states = memory.states.gather(1, order[..., None].expand(-1, -1, memory.states.shape[2]))
    return Memory(states, memory.mask.gather(1, order))
