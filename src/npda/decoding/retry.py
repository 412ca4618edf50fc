"""Searching with patience: who finds no end has often not heard it.

A family may hear less of the silence after an utterance than it was trained on, because silence costs time (Whisper was
trained on half a minute). Now and then it then misses the end and repeats itself up to the limit. These few sentences
are heard out and searched for again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from npda.decoding.beam import Hypothesis, SearchOptions, search
from npda.decoding.fusion import Fusion
from npda.models.backbone import Backbone, Memory

_TOGETHER = 4  # sentences heard out at once: they are long


def search_with_retry(
    backbone: Backbone,
    memory: Memory,
    prompt: Sequence[int],
    options: SearchOptions = SearchOptions(),
    fusions: Sequence[Fusion] = (),
) -> list[list[Hypothesis]]:
    """As ``search``; sentences without an end get what is found once they are heard out."""
    found = search(backbone, memory, prompt, options, fusions)
    endless = [row for row, hypotheses in enumerate(found) if not hypotheses[0].ended]
    if memory.with_full_padding is not None and endless:
        for rows in torch.tensor(endless, device=memory.mask.device).split(_TOGETHER):
            again = search(backbone, memory.with_full_padding(rows), prompt, options, fusions)
            for row, hypotheses in zip(rows.tolist(), again, strict=True):
                found[row] = hypotheses
    return found
