"""What `npda translate` was given, short and long, on its way to the writers."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from npda.io.errors import InputError
from npda.writers import Result, Segment

if TYPE_CHECKING:
    from npda.corpus.manifest import Utterance
    from npda.decoding.beam import SearchOptions
    from npda.decoding.fusion import Fusion
    from npda.terms.termbase import Terms
    from npda.translator import Translator

Segmenting = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class AudioInput:
    """A recording to translate. name: as the user knows it; file: what is read; row: of the manifest that names it"""

    name: str
    file: str
    row: Utterance | None = None

    @cached_property
    def seconds(self) -> float | None:
        """Its length; None if it cannot be read, which is reported in its turn."""
        from npda.audio import duration

        try:
            return duration(self.file)
        except InputError:
            return None

    def renamed(self, message: object) -> str:
        """A message with the name that the user knows instead of the file."""
        return str(message).replace(self.file, self.name)


def audio_inputs(names: Sequence[str]) -> Iterator[AudioInput]:
    """Audio files as they are, manifests row by row, folders file by file, and - for standard input."""
    if names.count("-") > 1:
        raise InputError("- stands for standard input, which can be read only once; name it once.")
    for name in names:
        if name == "-":
            yield AudioInput("stdin", str(_standard_input()))
        elif name.endswith((".tsv", ".tsv.gz")):
            from npda.corpus.manifest import read_manifest

            yield from (AudioInput(row.audio, row.audio, row) for row in read_manifest(name))
        elif os.path.isdir(name):
            yield from (AudioInput(file, file) for file in _files(name))
        else:
            yield AudioInput(name, name)


def _files(folder: str) -> list[str]:
    """The audio files of a folder and of the folders in it, sorted; hidden ones are left out."""
    from npda.audio import SUFFIXES

    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            os.path.join(parent, name) for name in files if not name.startswith(".") and name.lower().endswith(SUFFIXES)
        ]
    if not found:
        raise InputError(f"There is no audio in the folder {folder}: no file ends in .wav, .mp3, .m4a or the like.")
    return sorted(found)


def _standard_input() -> Path:
    """A copy that lasts as long as the program: most formats cannot be read without going back and forth."""
    if sys.stdin.isatty():
        raise InputError("- reads audio from standard input, which is a terminal; pipe a file into the command.")
    folder = Path(tempfile.mkdtemp(prefix="npda-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with open(folder / "stdin", "wb") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    return folder / "stdin"


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
    terms: Terms | None = None
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
        def report(error: InputError) -> None:
            message = str(error)
            for recording in recordings:
                message = recording.renamed(message)
            self._report(error, f"skipped: {message}")

        files = [recording.file for recording in recordings]
        translations = self.translator.translate_all(
            files, self.options, self.language, self.fusions, report, terms=self.terms or ()
        )
        for recording, t in zip(recordings, translations, strict=True):
            self.advance(recording.seconds or 0)
            nbest = t.alternatives if t and self.options.n_best > 1 else ()
            records = tuple(asdict(replacement) for replacement in t.terms) if t else ()
            told = (nbest, records, t.retried, t.stores) if t else ()
            segments = (Segment(0.0, t.duration, t.text, t.score, *told, partial=t.partial),) if t else ()
            yield Result(recording.name, segments)

    def _is_long(self, recording: AudioInput) -> bool:
        if recording.seconds is None or self.segmenting == "never":
            return False
        return self.segmenting == "always" or recording.seconds > self.translator.backbone.max_frames / 100

    def _short(self, recordings: Sequence[AudioInput]) -> Iterator[Result]:
        def report(error: InputError) -> None:
            message = str(error)
            for recording in recordings:
                message = recording.renamed(message)
            self._report(error, f"skipped: {message}")

        files = [recording.file for recording in recordings]
        translations = self.translator.translate_all(
            files, self.options, self.language, self.fusions, report, terms=self.terms or ()
        )
        for recording, t in zip(recordings, translations, strict=True):
            self.advance(recording.seconds or 0)
            nbest = t.alternatives if t and self.options.n_best > 1 else ()
            records = tuple(asdict(replacement) for replacement in t.terms) if t else ()
            segments = (Segment(0.0, t.duration, t.text, t.score, nbest, records, t.retried, t.stores),) if t else ()
            yield Result(recording.name, segments)

    def _long(self, recording: AudioInput) -> Iterator[Segment]:
        from npda.segmentation import best_detector

        detector = best_detector()
        if not self.quiet:
            say(f"{recording.name} lasts {recording.seconds:.0f} s: cut at its pauses, found by {detector.name}.")
        done = 0.0
        try:
            for segment in self.translator.translate_long(
                recording.file, self.options, self.language, self.fusions, detector=detector, terms=self.terms or ()
            ):
                self.advance(segment.end - done)
                done = segment.end
                yield segment
        except InputError as error:
            self._report(error, f"skipped from {done:.0f} s on: {recording.renamed(error)}")
        else:
            if not done and not self.quiet:
                say(f"{recording.name}: there is no speech in it.")
        self.advance(max(0.0, (recording.seconds or 0) - done))

    def _report(self, error: InputError, message: str) -> None:
        self.faults.append(error)
        say(message)


def _joined(segments: list[Segment]) -> tuple[Segment, ...]:
    text = " ".join(text for segment in segments if (text := segment.text.strip()))
    return (Segment(segments[0].start, segments[-1].end, text),) if segments else ()


def say(message: str) -> None:
    print(f"npda: {message}", file=sys.stderr)
