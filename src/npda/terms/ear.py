"""Writing down what was said, to find out whether a term was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch

from npda.decoding.beam import SearchOptions, search
from npda.models.backbone import Backbone, Memory

_LONGEST = 160  # tokens of a transcript


@runtime_checkable
class Transcribing(Protocol):
    """A backbone whose decoder writes down speech as well as it translates it."""

    def transcript_prompt(self, words: Sequence[str] = ()) -> list[int] | None:
        """What the transcript of a text begins with, None if the decoder cannot write one.

        words: that may occur in it
        """
        ...


def can_hear(backbone: Backbone) -> bool:
    return isinstance(backbone, Transcribing) and backbone.transcript_prompt() is not None


@torch.inference_mode()
def transcripts(backbone: Backbone, memory: Memory, wanted: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """Greedy transcripts of some sentences of a memory, which the encoder does not hear again.

    wanted: sentence → words that may occur in it; those whose prompts are equally long are written together
    """
    assert isinstance(backbone, Transcribing)
    together: defaultdict[int, list[tuple[int, list[int]]]] = defaultdict(list)
    for row, words in wanted.items():
        prompt = backbone.transcript_prompt(words)
        assert prompt is not None
        together[len(prompt)].append((row, prompt))
    found = {}
    for group in together.values():
        rows = torch.tensor([row for row, _ in group], device=memory.mask.device)
        prompts = torch.tensor([prompt for _, prompt in group], device=memory.mask.device)
        texts = search(backbone, of_rows(memory, rows), prompts, SearchOptions(beam=1, max_length=_LONGEST))
        for (row, _), (best,) in zip(group, texts, strict=True):
            found[row] = backbone.target.decode(best.tokens)
    return found


def of_rows(memory: Memory, rows: torch.Tensor) -> Memory:
    """Some sentences of a memory, without the padding that only others need. rows: [kept]"""
    mask = memory.mask[rows]
    length = int(mask.sum(dim=1).max())
    return replace(memory, states=memory.states[rows, :length], mask=mask[:, :length], with_full_padding=None)
