"""How alike the decoder's states are when it hears a sentence and when it reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from npda.corpus.manifest import Utterance
from npda.evaluation.devset import DevSet
from npda.io.errors import InputError
from npda.io.progress import bar
from npda.models.backbone import Backbone


@dataclass(frozen=True)
class Similarity:
    """Of the two states before every target token: averaged over the positions of a sentence, then over sentences.

    squared_distance: squared Euclidean
    """

    cosine: float
    squared_distance: float
    sentences: int


def similarity(
    backbone: Backbone, utterances: Sequence[Utterance], language: str | None = None, progress: bool = False
) -> Similarity:
    """Compare the speech path with the text path; utterances need audio, transcript and translation."""
    lacking = next((utterance.id for utterance in utterances if not utterance.src_text.strip()), None)
    if lacking is not None:
        raise InputError(f"Utterance {lacking!r} has no src_text, without which it cannot be read: add transcripts.")
    readable = DevSet(backbone, utterances, "text", language)
    speech = DevSet(backbone, [example.sentence for example in readable.examples], "speech", language)
    text = DevSet(backbone, [example.sentence for example in speech.examples], "text", language)
    with bar(progress) as display:
        task = display.add_task("comparing speech and text", total=2 * len(speech), note="")
        heard, read = (sentence_states(devset, lambda done: display.advance(task, done)) for devset in (speech, text))
    cosines = [torch.cosine_similarity(h, r, dim=1).mean() for h, r in zip(heard, read, strict=True)]
    distances = [(h - r).square().sum(dim=1).mean() for h, r in zip(heard, read, strict=True)]
    return Similarity(_mean(cosines), _mean(distances), len(heard))


def sentence_states(devset: DevSet, advance: Callable[[int], None] = lambda _: None) -> list[Tensor]:
    """The decoder's states [positions, dim] of each reference, in their order."""
    found: dict[int, Tensor] = {}
    for batch in devset.batches:
        states = devset.states(batch, devset.memory(batch))
        found.update((place, s.float()) for place, s in zip(batch.places, states, strict=True))
        advance(len(states))
    return [found[place] for place in range(len(devset))]


def _mean(values: list[Tensor]) -> float:
    return float(torch.stack(values).mean())
