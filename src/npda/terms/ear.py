"""Writing down what was said, to find out whether a term was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol, runtime_checkable

import torch

from npda.decoding.beam import SearchOptions, search
from npda.models.backbone import Backbone, Memory
from npda.terms.accuracy import alike
from npda.terms.phrases import spans

_LONGEST = 160  # tokens of a transcript


@runtime_checkable
class Transcribing(Protocol):
    """A backbone whose decoder writes down speech as well as it translates it."""

    def transcript_prompt(self, words: Sequence[str] = ()) -> list[int] | None:
        """What the transcript of a text begins with, None if the decoder cannot write one.

        words: that may occur in it
        """
        ...


@dataclass(frozen=True)
class Heard:
    """What was said, written down twice, since a hint makes the model hear what it names.

    text: with source terms as a hint; plain: without; the same where it names no term
    """

    text: str
    plain: str


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


def rejoined(text: str, plain: str) -> str:
    """A transcript with a hint, where words are joined that are one without: "Werkstatt Termin", when nobody said
    "Termin" but "Werkstatttermin". plain: the transcript without a hint, which may spell it a little differently"""
    whole = {span.word.casefold() for span in spans(plain)}
    joined, after = "", 0
    for left, right in pairwise(spans(text)):
        parts = [left.word.casefold(), right.word.casefold()]
        if whole.issuperset(parts) or not text[left.end : right.start].isspace():
            continue
        if any(alike("".join(parts), word) and not any(alike(part, word) for part in parts) for word in whole):
            joined += text[after : left.end]
            after = right.start
    return joined + text[after:]
