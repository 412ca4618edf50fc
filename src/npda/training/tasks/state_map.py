"""Fit the map from states that are read to states that are heard, on the triplets that the text path was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from npda.models.devices import device_of
from npda.models.state_map import StateMap, StateMapFit
from npda.training.loop.batching import by_length
from npda.training.objectives.alignment import Align, AlignData

WORTH = 0.05  # share of the squared distance on dev that a map has to save, or there is none
STRENGTHS = 0.003, 0.01, 0.03, 0.1  # of the ridge
_BATCH = 2_000  # padded tokens


@torch.inference_mode()
def fit_state_map(align: Align, data: AlignData, dev: AlignData) -> tuple[StateMap | None, dict[str, float | bool]]:
    """The map, or None if it is not worth it, and squared distances on dev a position: without it and with it."""
    fit = StateMapFit(align.backbone.dim)
    for read, heard in _states(align, data):
        fit.add(read, heard)
    held_out = [torch.cat(side) for side in zip(*_states(align, dev), strict=True)]

    def distance(mapped: Callable[[Tensor], Tensor]) -> float:
        read, heard = held_out
        return float((mapped(read) - heard).square().sum(dim=1).mean())

    without = distance(lambda states: states)
    found = min((fit.solve(strength) for strength in STRENGTHS), key=distance)
    kept = distance(found) < (1 - WORTH) * without
    figures = {"without": round(without, 3), "with": round(distance(found), 3), "kept": kept}
    return (found.to(device_of(align)) if kept else None), figures


def _states(align: Align, data: AlignData) -> Iterator[tuple[Tensor, Tensor]]:
    """The states of the same positions as the text path has them, without any map, and as they were heard."""
    backbone, device = align.backbone, device_of(align)
    align.eval()
    for indices in by_length(data.lengths, _BATCH):
        batch = data.batch(indices).to(device)
        predicted = batch.labels != backbone.target.pad
        memory = backbone.read(batch.source, batch.source_lengths)
        yield backbone.states(memory, batch.tokens)[predicted].float().cpu(), batch.teacher[predicted].cpu()
