"""Spans of long recordings, given in seconds and line by line beside their texts, become utterances."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from npda.audio import SAMPLE_RATE, frame_count, length
from npda.corpus.cleaning import one_line
from npda.corpus.manifest import Utterance
from npda.io.errors import InputError
from npda.io.files import read_lines
from npda.io.progress import track

EMPTY, SHORT, CLIPPED = "without text on a side", "too short to hear", "clipped to the end of the recording"

MIN_FRAMES = 5  # fewer are no speech; fairseq S2T leaves them out as well
SLACK = 0.5  # seconds; rounding and lossy codecs move the end of a recording by some hundredths


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a recording."""

    where: str  # file and line it was read from
    recording: Path
    start: float  # seconds
    duration: float  # seconds
    speaker: str = ""


@dataclass(frozen=True)
class Segments:
    """Spans and the two files that have a line for each of them."""

    name: str  # of the file the spans come from
    spans: Iterable[Span]
    source: Path
    target: Path
    src_lang: str
    tgt_lang: str

    def utterances(self, remarks: Counter[str] | None = None, progress: bool = False) -> list[Utterance]:
        """The utterances in order; how many were skipped or clipped, and why, is counted in `remarks`.

        Of a recording, only the header is read, or the end if the header is not exact. The id of the third utterance
        of talk.wav in German is talk_2.de, so that the utterances of several languages may stand in one manifest.
        """
        remarks = Counter() if remarks is None else remarks
        lengths: dict[Path, _Length] = {}
        numbers: Counter[Path] = Counter()
        found = []
        sources, targets = self._texts()
        count = 0
        for span in track(self.spans, f"reading {Path(self.name).name}", len(targets), progress):
            count += 1
            if count > len(targets):
                continue
            if span.recording not in lengths:
                lengths[span.recording] = _length(span)
            number = numbers[span.recording]
            numbers[span.recording] += 1
            piece = _piece(span, lengths[span.recording], remarks)
            texts = one_line(sources[count - 1]), one_line(targets[count - 1])
            if not all(texts):
                remarks[EMPTY] += 1
            elif piece.n_frames < MIN_FRAMES:
                remarks[SHORT] += 1
            else:
                found.append(
                    Utterance(
                        id=f"{span.recording.stem}_{number}.{self.tgt_lang}",
                        audio=f"{span.recording.absolute()}:{piece.start}:{piece.length}",
                        n_frames=piece.n_frames,
                        tgt_text=texts[1],
                        src_text=texts[0],
                        speaker=span.speaker,
                        src_lang=self.src_lang,
                        tgt_lang=self.tgt_lang,
                    )
                )
        if count != len(targets):
            raise InputError(
                f"{self.name} has {count} segments but {self.target} has {len(targets)} lines; "
                "there must be one line for each segment: unpack the corpus again."
            )
        if not found:
            raise InputError(f"{self.name} has no segments with speech and text; unpack the corpus again.")
        return found

    def _texts(self) -> tuple[list[str], list[str]]:
        sources, targets = read_lines(self.source), read_lines(self.target)
        if len(sources) != len(targets):
            raise InputError(
                f"{self.source} has {len(sources)} lines but {self.target} has {len(targets)}; "
                "line n of one must translate line n of the other: unpack the corpus again."
            )
        return sources, targets


def seconds(where: str, name: str, value: str) -> float:
    """A time of at least 0."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise InputError(f"{where}: {name} is {value!r}, not a number of seconds.")
    return number


class _Length(NamedTuple):
    samples: int
    rate: int


class _Piece(NamedTuple):
    start: int  # samples of the recording's own rate
    length: int
    n_frames: int


def _length(span: Span) -> _Length:
    """Of a whole recording: from its header, or from its end if the header is not exact."""
    recording = span.recording
    if not recording.is_file():
        raise InputError(f"{span.where}: there is no recording {recording}; unpack the corpus again.")
    try:
        return _Length(*length(recording))
    except InputError as error:
        raise InputError(f"{span.where}: {error} Unpack the corpus again.") from None


def _piece(span: Span, whole: _Length, remarks: Counter[str]) -> _Piece:
    """A span in samples; one that ends a little after its recording is clipped, any other that does is refused."""
    start, samples = round(span.start * whole.rate), round(span.duration * whole.rate)
    beyond = start + samples - whole.samples
    if beyond > SLACK * whole.rate:
        raise InputError(
            f"{span.where}: the segment ends at {span.start + span.duration:.2f} s, but {span.recording} lasts only "
            f"{whole.samples / whole.rate:.2f} s; it is cut short or another one: unpack it again."
        )
    if beyond > 0:
        remarks[CLIPPED] += 1
        samples = max(0, samples - beyond)
    # As many samples as resampling gives: rounded, halves upwards.
    heard = (2 * samples * SAMPLE_RATE + whole.rate) // (2 * whole.rate)
    return _Piece(start, samples, frame_count(heard))
