"""The learning rate as a function of the update: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from npda.training.loop.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, update: int, total: int | None = None) -> float:
    """The learning rate of an update, counted from 1.

    It rises linearly to its peak at the end of the warm-up; then it falls with 1/√update, falls along half a
    cosine to 0 at the last update, or stays.

    total: updates of the whole run; only the cosine needs it
    """
    peak, warmup = settings.learning_rate, settings.warmup
    if update <= warmup:
        return peak * update / warmup
    if settings.schedule == "inverse-sqrt":
        return peak * math.sqrt(max(warmup, 1) / update)
    if settings.schedule == "cosine":
        assert total is not None
        progress = min(1.0, (update - warmup) / max(1, total - warmup))
        return peak * (1 + math.cos(math.pi * progress)) / 2
    return peak
