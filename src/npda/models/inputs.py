"""A batch of sentences as a backbone takes them: padded to the longest, and moved to where its weights are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from npda.models.backbone import Backbone, Memory
from npda.models.devices import device_of, dtype_of


def token_rows(backbone: Backbone, rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """→ [batch, longest] on the backbone's device"""
    padded = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=pad)
    return padded.to(device_of(backbone))


def hear_batch(backbone: Backbone, features: Sequence[np.ndarray], prompts: Tensor | None = None) -> Memory:
    """Encode utterances. features: [frames, bins] each; prompts: [batch, n] the targets' beginnings"""
    device = device_of(backbone)
    padded = pad_sequence([torch.from_numpy(each) for each in features], batch_first=True)
    lengths = torch.tensor([len(each) for each in features])
    prompts = None if prompts is None else prompts.to(device)
    return backbone.hear(padded.to(device, dtype_of(backbone)), lengths.to(device), prompts)


def read_batch(backbone: Backbone, sources: Sequence[Sequence[int]]) -> Memory:
    """Encode texts. sources: token ids of ``backbone.source``"""
    assert backbone.source is not None
    lengths = torch.tensor([len(source) for source in sources], device=device_of(backbone))
    return backbone.read(token_rows(backbone, sources, backbone.source.pad), lengths)
