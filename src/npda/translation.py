"""What goes into a translation and what comes out of it, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from npda.decoding.beam import Hypothesis, Retried, SearchOptions
from npda.models.batches import cut
from npda.segmentation import Stretch
from npda.terms.replacing import Placed, Replacement
from npda.terms.termbase import Terms
from npda.writers import Segment

BATCH_FRAMES = 16_000  # padded frames in a batch


@dataclass(frozen=True)
class Translation:
    """The translation of one input.

    source: the file as it was named, or "" for samples; duration: seconds of audio;
    score: log-probability / length^α of the text; alternatives: (text, score) of the n best, this one first;
    terms: what has been replaced in the text; scores are those of the texts before;
    retried: how it was found where a plain search did not end, see ``npda.decoding.retry``, or "no speech";
    stores: how much each datastore had to say, its mean weight by its name, if they are guarded;
    tokens: of the best hypothesis, before terms are put in, with those that the translation was begun with;
    partial: part of a datastore did not answer and was left out, see ``npda.cluster.search``;
    log_prob: of the best hypothesis
    """

    text: str
    score: float
    duration: float
    source: str = ""
    alternatives: tuple[tuple[str, float], ...] = ()
    terms: tuple[Replacement, ...] = ()
    retried: Retried = ""
    stores: tuple[tuple[str, float], ...] = ()
    tokens: tuple[int, ...] = ()
    partial: bool = False
    log_prob: float = 0.0

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Heard:
    """One input, read and turned into features [frames, bins].

    source: the file as it was named, or "" for samples; duration: seconds of audio
    """

    source: str
    duration: float
    features: np.ndarray


@dataclass(frozen=True, eq=False)
class Task:
    """What one input of a batch is to become.

    prompt: tokens every target begins with, as long as those of the others in the batch; begins: tokens that this
    translation begins with, as many as of the others; terms: that are put in
    """

    heard: Heard
    prompt: Sequence[int]
    begins: Sequence[int] = ()
    terms: Terms | None = None


def as_translation(item: Heard, found: Sequence[tuple[Hypothesis, Placed]], partial: bool) -> Translation:
    best, placed = found[0]
    return Translation(
        placed.text,
        best.score,
        item.duration,
        item.source,
        tuple((each.text, h.score) for h, each in found),
        placed.replacements,
        best.retried,
        best.stores,
        best.tokens,
        partial,
        best.log_prob,
    )


def segment(stretch: Stretch, translation: Translation, options: SearchOptions) -> Segment:
    """What is said in a stretch of a recording. options: that it was translated with"""
    nbest = translation.alternatives if options.n_best > 1 else ()
    records = tuple(asdict(replacement) for replacement in translation.terms)
    return Segment(
        stretch.start,
        stretch.end,
        translation.text,
        translation.score,
        nbest,
        records,
        translation.retried,
        translation.stores,
        translation.tokens,
        translation.log_prob / (len(translation.tokens) + 1),  # the end symbol counts
        (stretch.first, stretch.first + len(stretch.samples)),
        translation.partial,
    )


def batches(heard: Sequence[Heard | None]) -> list[list[int]]:
    """Indices of what was heard, longest first."""
    lengths = [len(item.features) if item is not None else 0 for item in heard]
    order = sorted((i for i, item in enumerate(heard) if item is not None), key=lengths.__getitem__, reverse=True)
    return cut(order, lengths, BATCH_FRAMES)
