"""What `npda translate` was given, short and long, on its way to the writers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from npda.io.errors import InputError
from npda.writers import Result, Segment

if TYPE_CHECKING:
    from npda.decoding.beam import SearchOptions
    from npda.decoding.fusion import Fusion
    from npda.translator import Translator

Segmenting = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class AudioInput:
    """A file, or a row of a manifest. seconds: its length, None if it cannot be read"""

    name: str
    row: bool
    seconds: float | None

    @classmethod
    def of(cls, name: str, row: bool = False) -> AudioInput:
        from npda.audio import duration

        try:
            return cls(name, row, duration(name))
        except InputError:
            return cls(name, row, None)  # to be reported in its turn


@dataclass
class Translating:
    """Translates recordings in their order; what is longer than the model takes is cut at its pauses.

    advance: is told of every second of audio that is done; faults: what could not be read
    quiet: report faults only
    one_line: a row of a manifest that has to be cut is one segment again
    """

    translator: Translator
    options: SearchOptions
    language: str | None
    fusions: Sequence[Fusion]
    segmenting: Segmenting
    advance: Callable[[float], object]
    one_line: bool = False
    quiet: bool = False
    faults: list[InputError] = field(default_factory=list)

    def results(self, recordings: Iterable[AudioInput]) -> Iterator[Result]:
        """One for every recording, to be written before the next is asked for. What was skipped has no segments."""
        for long, group in groupby(recordings, key=self._is_long):
            if not long:
                yield from self._short(list(group))
                continue
            for recording in group:
                segments = self._long(recording)
                if recording.row and self.one_line:
                    segments = _joined(list(segments))
                yield Result(recording.name, segments)

    def _is_long(self, recording: AudioInput) -> bool:
        if recording.seconds is None or self.segmenting == "never":
            return False
        return self.segmenting == "always" or recording.seconds > self.translator.backbone.max_frames / 100

    def _short(self, recordings: Sequence[AudioInput]) -> Iterator[Result]:
        names = [recording.name for recording in recordings]
        translations = self.translator.translate_all(names, self.options, self.language, self.fusions, self._report)
        for recording, t in zip(recordings, translations, strict=True):
            self.advance(recording.seconds or 0)
            nbest = t.alternatives if t and self.options.n_best > 1 else ()
            yield Result(recording.name, (Segment(0.0, t.duration, t.text, t.score, nbest),) if t else ())

    def _long(self, recording: AudioInput) -> Iterator[Segment]:
        from npda.segmentation import best_detector

        detector = best_detector()
        if not self.quiet:
            say(f"{recording.name} lasts {recording.seconds:.0f} s: cut at its pauses, found by {detector.name}.")
        done = 0.0
        try:
            for segment in self.translator.translate_long(
                recording.name, self.options, self.language, self.fusions, detector=detector
            ):
                self.advance(segment.end - done)
                done = segment.end
                yield segment
        except InputError as error:
            self._report(error, f"skipped from {done:.0f} s on")
        else:
            if not done and not self.quiet:
                say(f"{recording.name}: there is no speech in it.")
        self.advance(max(0.0, (recording.seconds or 0) - done))

    def _report(self, error: InputError, what: str = "skipped") -> None:
        self.faults.append(error)
        say(f"{what}: {error}")


def _joined(segments: list[Segment]) -> tuple[Segment, ...]:
    text = " ".join(text for segment in segments if (text := segment.text.strip()))
    return (Segment(segments[0].start, segments[-1].end, text),) if segments else ()


def say(message: str) -> None:
    print(f"npda: {message}", file=sys.stderr)
