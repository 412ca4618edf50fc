"""Bilingual tables as spreadsheets and translation tools write them: separated by tabs, semicolons or commas."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from npda.corpus.languages import NAMES, language_code
from npda.corpus.pairs import Pair
from npda.corpus.terms import SOURCE_NAMES, TARGET_NAMES
from npda.io.errors import InputError
from npda.io.files import stream_lines

_SEPARATORS = {"\t": "tab", ";": "semicolon", ",": "comma"}
_LOOKED_AT = 50  # rows at the beginning by which the separator is found

Row = tuple[int, list[str]]  # the number of its last line, and its fields


def stream_sheet(path: str | Path, source_language: str | None = None, language: str | None = None) -> Iterator[Pair]:
    """Yield the pairs of a table of sentences, a row at a time.

    The separator is the first of tab, semicolon and comma that cuts all the first rows into equally many fields, at
    least two. A header names the two columns (see SOURCE_NAMES), or their languages; without one there are just two.
    Between semicolons or commas a field may stand in double quotes, between tabs they are letters like any other.
    source_language, language: of the source and of the translation, codes
    """
    path = Path(path)
    separator = _separator(path)
    rows = _rows(path, separator)
    first, header = next(rows)
    columns = _columns(header, source_language, language)
    if columns is None and len(header) != 2:
        raise InputError(
            f"{path}, line {first}: {len(header)} columns and no header that says which to take; call two of them "
            "source and target, or by their languages."
        )
    source, target = columns or (0, 1)
    found = 0
    for number, row in rows if columns else chain([(first, header)], rows):
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number}: {len(row)} fields instead of {len(header)}, separated by "
                f"{_SEPARATORS[separator]}; look for a missing or a stray one."
            )
        sides = [" ".join(row[place].split()) for place in (source, target)]
        if not all(sides):
            raise InputError(f"{path}, line {number}: a side of the pair is empty; fill it in or delete the line.")
        found += 1
        yield Pair(*sides)
    if not found:
        raise InputError(f"{path} has a header but no pairs.")


def _rows(path: Path, separator: str) -> Iterator[Row]:
    """All rows that are not empty."""
    lines = stream_lines(path)
    if separator == "\t":
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip())
        return
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    try:
        yield from ((reader.line_num, row) for row in reader if any(field.strip() for field in row))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}; look for a stray double quote.") from None


def _separator(path: Path) -> str:
    empty = True
    for separator in _SEPARATORS:
        try:
            widths = {len(row) for _, row in islice(_rows(path, separator), _LOOKED_AT)}
        except InputError:
            if separator == "\t":  # not a matter of quotes: the file cannot be read
                raise
            continue
        empty = empty and not widths
        if len(widths) == 1 and min(widths) >= 2:
            return separator
    if empty:
        raise InputError(f"{path} is empty; it needs one pair of sentences per line.")
    raise InputError(
        f"{path} is not a table of pairs: each line needs a sentence and its translation, separated by a tab, a "
        "semicolon or a comma, and a field that contains the separator stands in double quotes."
    )


def _columns(header: list[str], source_language: str | None, language: str | None) -> tuple[int, int] | None:
    """Where source and target stand, as far as a first row says it."""
    names = [field.strip().casefold() for field in header]
    source = next((names.index(name) for name in SOURCE_NAMES if name in names), None)
    target = next((names.index(name) for name in TARGET_NAMES if name in names), None)
    if source is not None and target is not None:
        return source, target
    codes = [_code(field) for field in header]
    told = [place for wanted in (source_language, language) for place, code in enumerate(codes) if _alike(code, wanted)]
    if len(told) == 2 and told[0] != told[1]:
        return told[0], told[1]
    if len(codes) == 2 and all(codes) and codes[0] != codes[1]:  # two languages, in their usual order
        return (1, 0) if _alike(codes[0], language) or _alike(codes[1], source_language) else (0, 1)
    return None


def _code(field: str) -> str | None:
    """Of a language that is known: any two or three letters look like a code."""
    try:
        code = language_code(field)
    except InputError:
        return None
    return code if re.split("[-_]", code)[0].lower() in NAMES else None


def _alike(code: str | None, wanted: str | None) -> bool:
    """de-AT, DE and de are alike."""
    if code is None or wanted is None:
        return False
    return re.split("[-_]", code)[0].lower() == re.split("[-_]", wanted)[0].lower()
