"""What an objective reaches on data it does not train on."""

from __future__ import annotations

import torch
from accelerate.state import PartialState

from npda.models.devices import device_of
from npda.training.data.speech import Data
from npda.training.loop.batching import by_length
from npda.training.loop.processes import add_up
from npda.training.objectives.translation import Objective


@torch.no_grad()
def means(objective: Objective, data: Data, batch_frames: int, processes: PartialState) -> dict[str, float]:
    """The mean of every term over all data, in evaluation mode and float32; the processes share the work."""
    objective.eval()
    device = device_of(objective)
    sums, counts = dict.fromkeys(objective.terms, 0.0), dict.fromkeys(objective.terms, 0)
    batches = by_length(data.lengths, batch_frames)
    for indices in batches[processes.process_index :: processes.num_processes]:
        batch = data.batch(indices)
        for name, count in objective.counts(batch).items():
            counts[name] += count
        for name, value in objective(batch.to(device)).items():
            sums[name] += float(value)
    totals = add_up(torch.tensor([list(sums.values()), list(counts.values())], dtype=torch.float64), processes)
    return {name: float(s / c) for name, s, c in zip(sums, *totals, strict=True) if c > 0}
