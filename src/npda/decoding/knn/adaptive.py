"""Adaptive kNN-MT (Zheng et al. 2021): a small network decides how many neighbours to believe.

It sees the distances of K neighbours and how many different tokens they propose, and spreads its trust over the first
0, 1, 2, 4, … K of them; 0 is the model alone. p = Σ p(k) · p_kNN(k), so that k and λ need not be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save_file
from torch import Tensor, nn

from npda.datastore.format import FileInfo
from npda.decoding.knn.combiners import Retrieved, knn_weights
from npda.io import limits
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.sealed import read_sealed, write_sealed
from npda.models.devices import follow
from npda.models.weights import load_into, read_weights

WEIGHTS, SETTINGS = "adaptive.safetensors", "adaptive.json"

_FURTHEST = 20.0  # in scales: further neighbours, and missing ones, look alike to the network


@dataclass(frozen=True)
class AdaptiveOptions:
    """k: the most neighbours it may believe, a power of two; temperature: T of their distances (eq. 2);
    scale: of squared distances in the store, by which those shown to the network are divided; hidden: its width
    """

    k: int = 16
    temperature: float = 10.0
    scale: float = 1.0
    hidden: int = 32

    def __post_init__(self) -> None:
        if self.k < 1 or self.k & (self.k - 1):
            raise ValueError(f"the most neighbours must be a power of two, not {self.k}")
        limits.K.check("k", self.k)
        limits.TEMPERATURE.check("the temperature", self.temperature)
        if not 0 < self.scale < float("inf") or self.hidden < 1:
            raise ValueError("scale and hidden must be above 0")

    @property
    def choices(self) -> tuple[int, ...]:
        """1, 2, 4, … k; the choice of no neighbour comes first and is not listed."""
        return tuple(1 << power for power in range(self.k.bit_length()))


class AdaptiveCombiner(nn.Module):
    """The network and the mixture it asks for; a ``Combiner``."""

    is_inactive = False
    _among: Tensor  # [choices, k] whether a neighbour is of the first n

    def __init__(self, options: AdaptiveOptions) -> None:
        super().__init__()
        self.options = options
        outputs = 1 + len(options.choices)
        self.network = nn.Sequential(
            nn.Linear(2 * options.k, options.hidden), nn.Tanh(), nn.Linear(options.hidden, outputs)
        )
        among = torch.arange(options.k) < torch.tensor(options.choices)[:, None]
        self.register_buffer("_among", among, persistent=False)

    def __str__(self) -> str:
        return f"k:≤{self.k}|λ:adaptive|T:{self.options.temperature:g}"

    @property
    def k(self) -> int:
        return self.options.k

    def combine(self, found: Retrieved) -> tuple[Tensor, Tensor]:
        return self.weigh(found.distances, found.values)

    @torch.inference_mode()
    def weigh(self, distances: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """``combine`` from distances and values alone, which is all that it looks at."""
        follow(self, distances)
        return self(distances.to(self._weight.dtype), values)

    def forward(self, distances: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As ``weigh``, with gradients."""
        logits = self.network(self.seen(distances, values))
        lambda_ = torch.sigmoid(torch.logsumexp(logits[:, 1:], dim=1, keepdim=True) - logits[:, :1])  # 1 − p(0)
        trust = torch.softmax(logits[:, 1:], dim=1)  # p(k) / λ: [rows, choices]
        nearest = torch.where(self._among, distances[:, None], torch.inf)
        weights = knn_weights(nearest, self.options.temperature)  # p_kNN(k), before tokens are added up
        return (trust[:, :, None] * weights).sum(dim=1), lambda_

    def seen(self, distances: Tensor, values: Tensor) -> Tensor:
        """What the network is shown: distances, and of the first 1 … k values the number of different ones.

        → [rows, 2 · k], both around 1 in size
        """
        near = (distances / self.options.scale).clamp(max=_FURTHEST)
        return torch.cat([near, distinct(values).to(near.dtype) / self.options.k], dim=1)

    @property
    def _weight(self) -> Tensor:
        return next(self.parameters())


def distinct(values: Tensor) -> Tensor:
    """How many different tokens are among the first 1 … k; missing ones (−1) are none. values: [rows, k] → [rows, k]"""
    same = values[:, :, None] == values[:, None, :]
    earlier = same.tril(diagonal=-1).any(dim=2)  # whether a token stood before
    return (~earlier & (values >= 0)).cumsum(dim=1)


class _Saved(BaseModel):
    """All of ``adaptive.json``. store: digest of the store it was trained with; weights: what the file must be"""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = 1
    k: Annotated[int, Field(ge=1, le=1024)]
    temperature: Annotated[float, Field(gt=0)]
    scale: Annotated[float, Field(gt=0)]
    hidden: Annotated[int, Field(ge=1, le=4096)]
    store: str
    weights: FileInfo


def save_adaptive(directory: Path, combiner: AdaptiveCombiner, store: str) -> None:
    """Keep a combiner in a folder, beside the keys it was trained for. store: their digest"""
    with atomic_write(directory / WEIGHTS) as temporary:
        save_file(combiner.state_dict(), temporary)
    options = combiner.options
    saved = _Saved(
        k=options.k, temperature=options.temperature, scale=options.scale, hidden=options.hidden,
        store=store, weights=FileInfo.of(directory / WEIGHTS),
    )  # fmt: skip
    write_sealed(directory / SETTINGS, saved.model_dump(mode="json"))


def remove_adaptive(directory: Path) -> None:
    """Throw away the combiner kept in a folder, if there is one."""
    for name in (SETTINGS, WEIGHTS):
        (directory / name).unlink(missing_ok=True)


def load_adaptive(directory: Path) -> tuple[AdaptiveCombiner, str]:
    """The combiner kept in a folder, and the digest of the store it was trained with."""
    path = directory / SETTINGS
    if not path.is_file():
        raise InputError(f"{directory} has no {SETTINGS}: train a combiner with `npda tune --adaptive`.")
    remedy = "run `npda tune --adaptive` again."
    try:
        saved = _Saved.model_validate(read_sealed(path))
        options = AdaptiveOptions(saved.k, saved.temperature, saved.scale, saved.hidden)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"{path}: {place}: {first['msg']}; {remedy}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; {remedy}") from None
    weights = directory / WEIGHTS
    if not weights.is_file() or FileInfo.of(weights) != saved.weights:
        raise InputError(f"{weights} is not the file that {SETTINGS} describes; {remedy}")
    combiner = AdaptiveCombiner(options)
    try:
        load_into(combiner, read_weights(weights), weights)
    except InputError:
        raise InputError(f"{weights} does not hold the network that {SETTINGS} describes; {remedy}") from None
    return combiner.eval(), saved.store
