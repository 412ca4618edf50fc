"""Training of the small networks that decide about neighbours: Adam on positions of a dev set, seconds on a CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from npda.io.errors import InputError


@dataclass(frozen=True)
class FitOptions:
    """held_out: share of the sentences that decide when to stop; patience: epochs without a better held-out loss"""

    rate: float = 3e-3
    batch: int = 256
    epochs: int = 200
    patience: int = 10
    held_out: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1 or self.rate <= 0 or min(self.batch, self.epochs, self.patience) < 1:
            raise ValueError("held_out lies between 0 and 1; rate, batch, epochs and patience are above 0")


@dataclass(frozen=True)
class Fit:
    """losses: on the held-out sentences, before training and after every epoch; best: whose weights were kept"""

    losses: tuple[float, ...]
    best: int


def fit(
    network: nn.Module, loss: Callable[[Tensor], Tensor], sentences: Tensor, options: FitOptions = FitOptions()
) -> Fit:
    """Train a network until it no longer gets better on sentences held out; it keeps the best weights it had.

    loss: of some positions [n] int64, each on its own → [n]; sentences: [positions], to which one each belongs
    """
    random = torch.Generator().manual_seed(options.seed)
    held_out = _held_out(sentences, options.held_out, random)
    rest, judged = (~held_out).nonzero()[:, 0], held_out.nonzero()[:, 0]

    @torch.no_grad()
    def judge() -> float:
        network.eval()
        return float(loss(judged).mean())

    optimiser = torch.optim.Adam(network.parameters(), lr=options.rate)
    losses, best, kept = [judge()], 0, copy.deepcopy(network.state_dict())
    for epoch in range(1, options.epochs + 1):
        network.train()
        for positions in rest[torch.randperm(len(rest), generator=random)].split(options.batch):
            optimiser.zero_grad()
            loss(positions).mean().backward()
            optimiser.step()
        losses.append(judge())
        if losses[-1] < losses[best]:
            best, kept = epoch, copy.deepcopy(network.state_dict())
        if epoch - best >= options.patience:
            break
    network.load_state_dict(kept)
    network.eval()
    return Fit(tuple(losses), best)


def _held_out(sentences: Tensor, share: float, random: torch.Generator) -> Tensor:
    """Whole sentences: what their positions have in common must not be seen before. → [positions] bool"""
    names, place = sentences.unique(return_inverse=True)
    if len(names) < 2:
        raise InputError("At least two dev sentences are needed: one to learn from, one to judge by.")
    count = min(max(1, round(share * len(names))), len(names) - 1)
    chosen = torch.zeros(len(names), dtype=torch.bool)
    chosen[torch.randperm(len(names), generator=random)[:count]] = True
    return chosen[place]
