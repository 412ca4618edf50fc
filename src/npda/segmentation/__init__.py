"""Recordings of any length, cut at their pauses into what a model takes.

``stretches`` reads a recording block by block, asks a detector where there is speech, and hands over each stretch of
speech with its times as soon as its end is heard. An hour takes no more memory than a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike, fspath

from npda import audio
from npda.io.errors import InputError
from npda.segmentation.cutting import Cutter, Pauses, Stretch
from npda.segmentation.detectors import Detector, best_detector, holds_speech

__all__ = ["Detector", "Pauses", "Stretch", "best_detector", "gathered", "holds_speech", "stretches"]


def stretches(
    path: str | PathLike[str], pauses: Pauses = Pauses(), detector: Detector | None = None
) -> Iterator[Stretch]:
    """The speech of a recording in order, each stretch as soon as it has ended.

    Where a recording cannot be read any further, what was heard until then comes before the error.
    detector: a fresh one, for it remembers what it heard; by default the best that is installed
    """
    cutter = Cutter(detector or best_detector(), pauses)
    try:
        for block in audio.stream(fspath(path)):
            yield from cutter.hear(block)
    except audio.CutOff:
        yield from cutter.finish()
        raise
    yield from cutter.finish()


def gathered(found: Iterable[Stretch], seconds: float) -> Iterator[list[Stretch]]:
    """Stretches in lists of about so many seconds, for those who work on several at once.

    Where a recording cannot be read any further, what was heard until then comes before the error.
    """
    group: list[Stretch] = []
    fault = None
    try:
        for stretch in found:
            group.append(stretch)
            if sum(len(one.samples) for one in group) >= seconds * audio.SAMPLE_RATE:
                yield group
                group = []
    except InputError as error:
        fault = error
    if group:
        yield group
    if fault:
        raise fault
