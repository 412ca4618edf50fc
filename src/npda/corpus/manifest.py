"""Speech manifests in the TSV layout of fairseq S2T: one utterance a line, columns named by the header."""

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from npda.corpus.languages import is_code
from npda.io.errors import InputError
from npda.io.files import audio_piece, read_lines, stream_lines, write_lines


@dataclass(frozen=True, slots=True)
class Utterance:
    """One piece of speech with its translation and, where known, its transcript."""

    id: str
    audio: str  # absolute path, or "path:offset:length" in samples of the file's own rate
    n_frames: int
    tgt_text: str
    src_text: str = ""
    speaker: str = ""
    src_lang: str = ""
    tgt_lang: str = ""


COLUMNS = tuple(field.name for field in fields(Utterance))
REQUIRED = ("id", "audio", "n_frames", "tgt_text")


def read_manifest(path: str | Path, check_audio: bool = False) -> list[Utterance]:
    """Read a manifest; a relative audio path is relative to the manifest's folder.

    There is no quoting: a quote mark is an ordinary character. Columns may stand in any order, unknown ones
    are ignored. With `check_audio` a missing audio file is an error here rather than when it is first heard.
    """
    path = Path(path)
    lines = read_lines(path)
    if len(lines) < 2:
        raise InputError(f"{path} has no utterances; it needs a header line and one line for each utterance.")
    header = lines[0].split("\t")
    places = column_places(path, header, REQUIRED, COLUMNS)
    folder = path.absolute().parent
    seen: dict[str, int] = {}
    utterances = []
    for number, line in enumerate(lines[1:], start=2):
        row = split_row(path, number, line, len(header))
        values = {name: row[place] for name, place in places.items()}
        where = f"{path}, line {number}"
        audio = _absolute(values["audio"], folder)
        utterance = Utterance(**{**values, "audio": audio, "n_frames": _frames(where, values["n_frames"])})
        _check(where, utterance)
        if utterance.id in seen:
            raise InputError(
                f"{where}, column id: {utterance.id!r} already stands in line {seen[utterance.id]}; "
                "give every utterance its own id."
            )
        seen[utterance.id] = number
        if check_audio and not audio_piece(audio)[0].is_file():
            raise InputError(f"{where}, column audio: there is no file {audio_piece(audio)[0]}.")
        utterances.append(utterance)
    return utterances


def is_manifest(path: Path) -> bool:
    """Whether a table is of speech, by its header."""
    return {"audio", "n_frames"} <= set(next(stream_lines(path), "").split("\t"))


def write_manifest(path: str | Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest atomically; audio inside the manifest's folder is written relative to it."""
    folder = Path(path).absolute().parent
    lines = ["\t".join(COLUMNS)]
    seen: set[str] = set()
    for utterance in utterances:
        where = f"{path}, utterance {utterance.id!r}"
        _check(where, utterance)
        _frames(where, str(utterance.n_frames))
        if utterance.id in seen:
            raise InputError(f"{where}: the id is used twice; give every utterance its own id.")
        seen.add(utterance.id)
        row = {name: str(getattr(utterance, name)) for name in COLUMNS}
        row["audio"] = _relative(utterance.audio, folder)
        lines.append(join_row(where, row))
    write_lines(path, lines)


def within(utterances: Iterable[Utterance], max_frames: int) -> tuple[list[Utterance], int]:
    """The utterances of at most `max_frames` frames, and how many were dropped."""
    utterances = list(utterances)
    kept = [utterance for utterance in utterances if utterance.n_frames <= max_frames]
    return kept, len(utterances) - len(kept)


def column_places(path: Path, header: Sequence[str], required: Sequence[str], known: Sequence[str]) -> dict[str, int]:
    """Where each known column of a header stands; a missing or doubled one is refused."""
    for name in known:
        if header.count(name) > 1:
            raise InputError(f"{path}, line 1: the column {name} occurs twice; remove one of them.")
    for name in required:
        if name not in header:
            unknown = [column for column in header if column not in known]
            near = difflib.get_close_matches(name, unknown, n=1, cutoff=0.5)
            remedy = f"rename {near[0]!r} if that is it" if near else f"it has {', '.join(header)}"
            raise InputError(f"{path}, line 1: the column {name} is missing; {remedy}.")
    return {name: header.index(name) for name in known if name in header}


def split_row(path: Path, number: int, line: str, width: int) -> list[str]:
    """The tab-separated fields of a line, which must be `width` many."""
    row = line.split("\t")
    if len(row) != width:
        raise InputError(
            f"{path}, line {number}: {len(row)} fields instead of {width}; look for a missing or a stray tab."
        )
    return row


def join_row(where: str, row: dict[str, str]) -> str:
    """Join fields by tabs; a field that would break the line is refused."""
    for name, value in row.items():
        if any(character in value for character in "\t\n\r"):
            raise InputError(f"{where}, column {name}: a tab or a line break; replace it by a space.")
    return "\t".join(row.values())


def _check(where: str, utterance: Utterance) -> None:
    for name in ("id", "audio", "tgt_text"):
        if not getattr(utterance, name).strip():
            raise InputError(f"{where}, column {name}: empty; fill it in or delete the line.")
    for name in ("src_lang", "tgt_lang"):
        check_language(where, name, getattr(utterance, name))


def check_language(where: str, column: str, language: str) -> None:
    """Refuse what cannot be the code of a language; where none is named it is up to the options."""
    if language and not is_code(language):
        raise InputError(f"{where}, column {column}: {language!r} is not a language; give its code, such as de.")


def _frames(where: str, value: str) -> int:
    # Longer than any recording, and short enough for int().
    if not (value.isascii() and value.isdigit() and len(value) < 16 and int(value) > 0):
        raise InputError(f"{where}, column n_frames: {value!r} is not a positive whole number of 10 ms frames.")
    return int(value)


def _absolute(audio: str, folder: Path) -> str:
    return os.path.normpath(folder / audio) if audio.strip() else audio


def _relative(audio: str, folder: Path) -> str:
    inside = os.path.normpath(audio).startswith(f"{folder}{os.sep}")
    return os.path.relpath(audio, folder) if inside else os.path.abspath(audio)
