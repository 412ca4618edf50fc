"""Uploaded files of sentence pairs, to become a store: read whole, and kept as one plain table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from npda.corpus.pairs import COLUMNS, Pair
from npda.corpus.sheets import stream_sheet
from npda.corpus.tmx import read_tmx, tmx_languages
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.serving.errors import Refusal
from npda.serving.requests.receiving import Upload

_TERM_WORDS, _TERMS = 3, 0.9  # words of a source that may be a term, and the share of such that makes a glossary
_LONGEST = 5_000  # letters of a side; no sentence has as many
_XML = re.compile(rb"(\xef\xbb\xbf)?\s*<|\xff\xfe<|\xfe\xff\x00<")
_PACKED = {b"PK\x03\x04": "an office document or an archive", b"\x1f\x8b": "packed", b"%PDF": "a PDF"}


@dataclass(frozen=True)
class Languages:
    """Codes, as far as they are known. written: of the translations"""

    spoken: str | None
    written: str | None


def keep_pairs(upload: Upload, target: Path, languages: Languages, most: int, terms_too: bool = False) -> int:
    """Read a TSV, CSV or TMX file and write its pairs to ``target``. → how many

    most: pairs that are taken; terms_too: take bare terms for sentences
    """
    try:
        return _write(_checked(_pairs(upload, languages), most, upload.name, terms_too), target)
    except InputError as error:
        raise Refusal(422, str(error).replace(str(upload.path), upload.name), "file", "bad_file") from None


def _pairs(upload: Upload, languages: Languages) -> Iterator[Pair]:
    path = upload.path
    with open(path, "rb") as file:
        begins = file.read(256)
    for mark, what in _PACKED.items():
        if begins.startswith(mark):
            raise Refusal(
                415,
                f"{upload.name} is {what}: unpack it, or save the table as CSV or the memory as TMX, and send that.",
                "file",
                "no_text",
            )
    if not _XML.match(begins):
        return stream_sheet(path, languages.spoken, languages.written)
    found = _languages_of(upload, languages)
    assert found.spoken is not None
    assert found.written is not None
    return read_tmx(path, found.spoken, found.written)


def _languages_of(upload: Upload, languages: Languages) -> Languages:
    """Which two languages of a memory to take: what is not said follows where it has just two."""
    if languages.spoken and languages.written:
        return languages
    plain = list(dict.fromkeys(re.split("[-_]", code)[0] for code in tmx_languages(upload.path)))
    known = languages.spoken or languages.written
    others = [code for code in plain if known is not None and code != re.split("[-_]", known)[0].lower()]
    if len(plain) != 2 or len(others) != 1:
        missing = "source_language" if languages.written else "language"
        there = ", ".join(plain) or "none"
        raise Refusal(422, f"Say which `source_language` and `language` to take: {upload.name} has {there}.", missing)
    return Languages(languages.spoken or others[0], languages.written or others[0])


def _checked(pairs: Iterable[Pair], most: int, name: str, terms_too: bool) -> Iterator[Pair]:
    count = terms = 0
    for count, pair in enumerate(pairs, start=1):
        if count > most:
            raise Refusal(413, f"{name} has more than {most:,} pairs: send it in parts.", "file", "too_large")
        if max(len(pair.src_text), len(pair.tgt_text)) > _LONGEST:
            raise Refusal(
                422, f"{name}, pair {count}: a side has more than {_LONGEST:,} letters; cut it into sentences.", "file"
            )
        terms += len(pair.src_text.split()) <= _TERM_WORDS
        yield pair
    if not terms_too and terms >= _TERMS * count:
        raise Refusal(
            422,
            f"{name} is a glossary, and a store of bare terms changes no translation: POST it to /v1/terms, where it "
            "becomes a list of terms. If these are whole sentences, say kind=sentences.",
            "file",
            "glossary",
        )


def _write(pairs: Iterable[Pair], target: Path) -> int:
    """All of them, or no file."""
    with atomic_write(target) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write("\t".join(COLUMNS) + "\n")
        count = 0
        for pair in pairs:
            fields = (" ".join(text.split()) for text in (pair.src_text, pair.tgt_text, pair.id, pair.tgt_lang))
            file.write("\t".join(fields) + "\n")
            count += 1
    return count
