"""Translations of recordings as txt, json, srt, vtt or tsv, on a stream or as one file a recording."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from npda.io.errors import InputError
from npda.io.files import atomic_write, audio_piece
from npda.io.terminal import printable
from npda.subtitles import Cue, cues

FORMATS = ("txt", "json", "srt", "vtt", "tsv")


@dataclass(frozen=True)
class Segment:
    """What is said from `start` to `end`, in seconds of the recording."""

    start: float
    end: float
    text: str
    score: float | None = None
    nbest: tuple[tuple[str, float], ...] = ()  # texts and scores, best first
    terms: tuple[Mapping[str, Any], ...] = ()  # what has been replaced in the text, for JSON
    retried: str = ""  # how it was found where a plain search did not end, see ``npda.decoding.retry``
    stores: tuple[tuple[str, float], ...] = ()  # how much each datastore had to say, by its name
    tokens: tuple[int, ...] = ()  # of the text, before terms were put in
    avg_logprob: float | None = None  # of a token
    heard: tuple[int, int] | None = None  # samples that were translated, with a little silence on both sides
    partial: bool = False  # part of a datastore did not answer and was left out

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end < math.inf:
            raise ValueError(f"a segment cannot last from {self.start} to {self.end} seconds")


@dataclass(frozen=True)
class Result:
    """The translation of one recording; `id` is its path, or its name in a manifest.

    The segments are gone through once, so they may come as they are translated.
    """

    id: str
    segments: Iterable[Segment]
    language: str = ""  # of the translation


def write(results: Iterable[Result], format: str, stream: TextIO) -> None:
    """Write recordings one after the other, segment by segment as they are there (json: recording by recording).

    txt    a line for every segment, empty ones too; a recording without segments is an empty line,
           so that short recordings and lines correspond
    json   an object a line (JSON Lines) for every recording, with scores, n-best, ``retried`` where it is not "",
           ``stores`` where there are guarded ones, and ``partial`` where part of a store was left out
    srt    cues numbered from 1 within each recording, as `npda.subtitles` cuts them
    vtt    the same cues; one header; a NOTE names each recording
    tsv    columns id, start, end, text; times in milliseconds
    """
    stream.write(_header(format))
    for result in results:
        _write_result(result, format, stream)


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
        with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(header)
            _write_result(result, format, stream)
        paths.append(path)
    return paths


def _header(format: str) -> str:
    if format not in FORMATS:
        raise InputError(f"There is no format {format!r}; choose from {', '.join(FORMATS)}.")
    return {"vtt": "WEBVTT\n\n", "tsv": "id\tstart\tend\ttext\n"}.get(format, "")


def _write_result(result: Result, format: str, stream: TextIO) -> None:
    render = {"txt": _txt, "json": _json, "srt": _srt, "vtt": _vtt, "tsv": _tsv}[format]
    for part in render(result):
        # A file name that is not UTF-8 reaches us with lone surrogates, which could not be written.
        plain = part.encode("utf-8", "replace").decode("utf-8")
        stream.write(printable(plain) if stream.isatty() else plain)
        stream.flush()


def _txt(result: Result) -> Iterator[str]:
    empty = True
    for segment in result.segments:
        empty = False
        yield f"{_one_line(segment.text)}\n"
    if empty:
        yield "\n"


def _json(result: Result) -> Iterator[str]:
    segments = [
        {
            "start": milliseconds(segment.start) / 1000,
            "end": milliseconds(segment.end) / 1000,
            "text": segment.text,
            "score": _finite(segment.score),
            "nbest": [{"text": text, "score": _finite(score)} for text, score in segment.nbest],
            **({"terms": list(segment.terms)} if segment.terms else {}),
            **({"retried": segment.retried} if segment.retried else {}),
            **({"stores": {name: round(weight, 4) for name, weight in segment.stores}} if segment.stores else {}),
            **({"partial": True} if segment.partial else {}),
        }
        for segment in result.segments
    ]
    text = " ".join(text for segment in segments if (text := segment["text"].strip()))
    record = {"id": result.id, "language": result.language, "text": text, "segments": segments}
    yield json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def _srt(result: Result) -> Iterator[str]:
    for number, cue in enumerate(_cues(result), 1):
        # SRT has no escapes, and an arrow would begin a new cue.
        text = re.sub("-{2,}>", "->", cue.text)
        yield f"{number}\n{_times(cue, ',')}\n{text}\n\n"


def _vtt(result: Result) -> Iterator[str]:
    # The name only: a path would tell the world about the disk it came from.
    yield f"NOTE {_escape(_one_line(Path(result.id).name))}\n\n"
    for cue in _cues(result):
        yield f"{_times(cue, '.')}\n{_escape(cue.text)}\n\n"


def _tsv(result: Result) -> Iterator[str]:
    name = _one_line(result.id)
    for s in result.segments:
        yield f"{name}\t{milliseconds(s.start)}\t{milliseconds(s.end)}\t{_one_line(s.text)}\n"


def _cues(result: Result) -> Iterator[Cue]:
    for s in result.segments:
        yield from cues(s.start, s.end, s.text)


def _times(cue: Cue, point: str) -> str:
    """`00:01:00,000 --> 00:01:02,500`; a cue lasts a millisecond at least, or players would drop it."""
    start = milliseconds(cue.start)
    end = max(milliseconds(cue.end), start + 1)
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
