"""What `npda translate` was given, short and long, on its way to the writers."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from npda.io.errors import InputError
from npda.io.journal import Journal
from npda.io.terminal import printable
from npda.writers import Result, Segment

if TYPE_CHECKING:
    from npda.corpus.manifest import Utterance
    from npda.datastore.store import Datastore
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
    journal: what is done is kept there, and not done again
    quiet: report faults only; stores: that steer, whose files have been looked at before the last result is given
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
    stores: Sequence[Datastore] = ()
    journal: Journal | None = None
    faults: list[InputError] = field(default_factory=list)

    def results(self, recordings: Iterable[AudioInput]) -> Iterator[Result]:
        """One for every recording, to be written before the next is asked for. What was skipped has no segments."""
        for number, (long, group) in enumerate(groupby(recordings, key=self._is_long)):
            if not long:
                for part, window in enumerate(_windows(list(group))):
                    yield from self._short(f"{number}.{part}", window)
                continue
            for part, recording in enumerate(group):
                segments = self._long(f"{number}.{part}", recording)
                if recording.row and self.one_line:
                    segments = _joined(list(segments))
                yield Result(recording.name, segments)
        for store in self.stores:
            store.checking.finish()

    def _is_long(self, recording: AudioInput) -> bool:
        if recording.seconds is None or self.segmenting == "never":
            return False
        return self.segmenting == "always" or recording.seconds > self.translator.backbone.max_frames / 100

    def _short(self, part: str, recordings: Sequence[AudioInput]) -> Iterator[Result]:
        """Recordings that are translated together. part: its name in the journal"""
        known = self.journal.get(part) if self.journal else None
        found = [_from_json(segments) for segments in known or ()]
        if known is None:
            for recording, segments in zip(recordings, self._translated(recordings), strict=True):
                found.append(segments)
                if self.journal is None:
                    self.advance(recording.seconds or 0)
                    yield Result(recording.name, segments)
            if self.journal is None:
                return
            self.journal.add(part, [[asdict(segment) for segment in segments] for segments in found])
        for recording, segments in zip(recordings, found, strict=True):
            if known is not None and not segments:
                self._report(InputError(recording.name), f"skipped before: {recording.name}")
            self.advance(recording.seconds or 0)
            yield Result(recording.name, segments)

    def _translated(self, recordings: Sequence[AudioInput]) -> Iterator[tuple[Segment, ...]]:
        from npda.audio import CutOff

        def report(error: InputError) -> None:
            message = str(error)
            for recording in recordings:
                message = recording.renamed(message)
            self._report(error, message if isinstance(error, CutOff) else f"skipped: {message}")

        files = [recording.file for recording in recordings]
        translations = self.translator.translate_all(
            files, self.options, self.language, self.fusions, report, terms=self.terms or ()
        )
        for recording, t in zip(recordings, translations, strict=True):
            if t is not None and t.retried == "no speech" and not self.quiet:
                say(f"{recording.name}: there is no speech in it.")
            if t is None:
                yield ()
                continue
            nbest = t.alternatives if self.options.n_best > 1 else ()
            records = tuple(asdict(replacement) for replacement in t.terms)
            yield (Segment(0.0, t.duration, t.text, t.score, nbest, records, t.retried, t.stores, partial=t.partial),)

    def _long(self, name: str, recording: AudioInput) -> Iterator[Segment]:
        """name: of the recording in the journal"""
        from npda.segmentation import best_detector

        detector = best_detector()
        if not self.quiet:
            say(f"{recording.name} lasts {recording.seconds:.0f} s: cut at its pauses, found by {detector.name}.")
        done = 0.0
        journal = self.journal
        kept: dict[str, Any] = {}
        if journal is not None:
            kept = {
                "done": lambda part: _from_json(journal.get(f"{name}.{part}")),
                "on_done": lambda part, segments: journal.add(f"{name}.{part}", [asdict(one) for one in segments]),
            }
        try:
            for segment in self.translator.translate_long(
                recording.file,
                self.options,
                self.language,
                self.fusions,
                detector=detector,
                terms=self.terms or (),
                **kept,
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


def work_digest(recordings: Sequence[AudioInput], translator: Translator, *settings: object) -> str:
    """Tells a translation from any other: by its inputs, its model and all settings."""
    inputs = []
    for recording in recordings:
        with contextlib.suppress(OSError):
            status = os.stat(recording.file)
            inputs.append((recording.name, status.st_size, status.st_mtime_ns))
    content = [repr(inputs), translator.backbone.model_digest(), repr(settings)]
    return hashlib.sha256("\n".join(content).encode(errors="surrogateescape")).hexdigest()


def _windows(recordings: Sequence[AudioInput]) -> Iterator[Sequence[AudioInput]]:
    """As many as are read ahead and sorted by length together."""
    from npda.translator import WINDOW

    for first in range(0, len(recordings), WINDOW):
        yield recordings[first : first + WINDOW]


def _from_json(segments: Any) -> Any:
    """Segments as a journal keeps them; None if it does not."""
    if segments is None:
        return None
    return tuple(
        Segment(
            **{
                **one,
                "nbest": tuple((text, score) for text, score in one["nbest"]),
                "terms": tuple(one["terms"]),
                "stores": tuple((name, weight) for name, weight in one["stores"]),
                "tokens": tuple(one["tokens"]),
            }
        )
        for one in segments
    )


def _joined(segments: list[Segment]) -> tuple[Segment, ...]:
    text = " ".join(text for segment in segments if (text := segment.text.strip()))
    return (Segment(segments[0].start, segments[-1].end, text),) if segments else ()


def say(message: str) -> None:
    print(f"npda: {printable(message)}", file=sys.stderr)
