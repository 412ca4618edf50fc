"""Translations of recordings as txt, json, srt, vtt or tsv, on a stream or as one file a recording."""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from npda.errors import InputError
from npda.files import atomic_write, audio_piece

FORMATS = ("txt", "json", "srt", "vtt", "tsv")


@dataclass(frozen=True)
class Segment:
    """What is said from `start` to `end`, in seconds of the recording."""

    start: float
    end: float
    text: str
    score: float | None = None
    nbest: tuple[tuple[str, float], ...] = ()  # texts and scores, best first

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end < math.inf:
            raise ValueError(f"a segment cannot last from {self.start} to {self.end} seconds")


@dataclass(frozen=True)
class Result:
    """The translation of one recording; `id` is its path, or its name in a manifest."""

    id: str
    segments: tuple[Segment, ...]
    language: str = ""  # of the translation

    @property
    def text(self) -> str:
        return " ".join(text for segment in self.segments if (text := segment.text.strip()))


def write(results: Iterable[Result], format: str, stream: TextIO) -> None:
    """Write recordings one after the other, each as soon as it is there.

    txt    a line for every segment, empty ones too; a recording without segments is an empty line,
           so that short recordings and lines correspond
    json   an object a line (JSON Lines) for every recording, with scores and n-best
    srt    cues numbered from 1 within each recording
    vtt    one header; a NOTE names each recording
    tsv    columns id, start, end, text; times in milliseconds
    """
    stream.write(_header(format))
    for result in results:
        stream.write(_render(result, format))
        stream.flush()


def write_all(results: Iterable[Result], format: str, output_dir: str | Path) -> list[Path]:
    """Write every recording to `<output_dir>/<stem>.<format>`, atomically; return the paths.

    Of recordings with the same stem the later ones get `-2`, `-3`, …; a file of an earlier run is replaced.
    """
    output_dir, header = Path(output_dir), _header(format)
    paths: list[Path] = []
    taken: dict[str, int] = {}
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output_dir} cannot be made a directory: {error.strerror}.") from None
    for result in results:
        path = output_dir / f"{_unique(_stem(result.id), taken)}.{format}"
        with atomic_write(path) as temporary:
            temporary.write_text(header + _render(result, format), encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


def _header(format: str) -> str:
    if format not in FORMATS:
        raise InputError(f"There is no format {format!r}; choose from {', '.join(FORMATS)}.")
    return {"vtt": "WEBVTT\n\n", "tsv": "id\tstart\tend\ttext\n"}.get(format, "")


def _render(result: Result, format: str) -> str:
    render = {"txt": _txt, "json": _json, "srt": _srt, "vtt": _vtt, "tsv": _tsv}[format]
    # A file name that is not UTF-8 reaches us with lone surrogates, which could not be written.
    return render(result).encode("utf-8", "replace").decode("utf-8")


def _txt(result: Result) -> str:
    return "".join(f"{_one_line(segment.text)}\n" for segment in result.segments) or "\n"


def _json(result: Result) -> str:
    segments = [
        {
            "start": milliseconds(segment.start) / 1000,
            "end": milliseconds(segment.end) / 1000,
            "text": segment.text,
            "score": _finite(segment.score),
            "nbest": [{"text": text, "score": _finite(score)} for text, score in segment.nbest],
        }
        for segment in result.segments
    ]
    record = {"id": result.id, "language": result.language, "text": result.text, "segments": segments}
    return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def _srt(result: Result) -> str:
    # SRT has no escapes, and an arrow or an empty line would begin a new cue.
    cues = [(s, re.sub("-{2,}>", "->", text)) for s in result.segments if (text := _cue_text(s.text))]
    return "".join(f"{number}\n{_times(s, ',')}\n{text}\n\n" for number, (s, text) in enumerate(cues, 1))


def _vtt(result: Result) -> str:
    # The name only: a path would tell the world about the disk it came from.
    note = f"NOTE {_escape(_one_line(Path(result.id).name))}\n\n"
    cues = ((s, _escape(text)) for s in result.segments if (text := _cue_text(s.text)))
    return note + "".join(f"{_times(s, '.')}\n{text}\n\n" for s, text in cues)


def _tsv(result: Result) -> str:
    rows = (
        (_one_line(result.id), milliseconds(s.start), milliseconds(s.end), _one_line(s.text)) for s in result.segments
    )
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _times(segment: Segment, point: str) -> str:
    """`00:01:00,000 --> 00:01:02,500`; a cue lasts a millisecond at least, or players would drop it."""
    start = milliseconds(segment.start)
    end = max(milliseconds(segment.end), start + 1)
    return f"{_timestamp(start, point)} --> {_timestamp(end, point)}"


def _timestamp(total: int, point: str) -> str:
    seconds, thousandths = divmod(total, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{point}{thousandths:03d}"


def milliseconds(seconds: float) -> int:
    """Rounded before it is split into hours and minutes, so that 59.9996 s is a minute."""
    return round(seconds * 1000)


def _one_line(text: str) -> str:
    """Line breaks of every kind and tabs become spaces; other white space, as before « ! », stays."""
    return " ".join(text.replace("\t", " ").splitlines()).strip()


def _cue_text(text: str) -> str:
    return "\n".join(line for part in text.splitlines() if (line := part.strip()))


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _finite(score: float | None) -> float | None:
    """JSON has no infinity."""
    return score if score is not None and math.isfinite(score) else None


def _stem(id: str) -> str:
    """A file name out of a path, of "talk.wav:offset:length", or of any other name."""
    path, offset, length = audio_piece(id)
    stem = path.stem if length is None else f"{path.stem}-{offset}-{length}"
    return re.sub(r'[\x00-\x1f\x7f<>:"/\\|?*]', "_", stem).strip(". ") or "recording"


def _unique(stem: str, taken: dict[str, int]) -> str:
    """`stem`, or `stem-2`, `stem-3`, … when taken; upper and lower case are one on some disks."""
    name, number = stem, taken.get(stem.casefold(), 1)
    while name.casefold() in taken:
        number += 1
        name = f"{stem}-{number}"
    taken[stem.casefold()] = number
    taken.setdefault(name.casefold(), 1)
    return name
