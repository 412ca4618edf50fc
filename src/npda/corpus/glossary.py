"""Glossaries: term pairs in a small table, separated by tabs, semicolons or commas."""

import csv
from pathlib import Path

from npda.corpus.pairs import Pair
from npda.io.errors import InputError
from npda.io.files import read_lines

# Column names that say which side is which; a header is recognised by having one of each.
SOURCE_NAMES = ("src_text", "source", "src", "source term", "term")
TARGET_NAMES = ("tgt_text", "target", "tgt", "target term", "translation")

_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}


def read_glossary(path: str | Path) -> list[Pair]:
    """Read term pairs: source first, target second, or in the columns that a header names (see SOURCE_NAMES).

    The separator is the first of tab, semicolon and comma that cuts every line into equally many fields, at least
    two; a field that contains it stands in double quotes. Empty lines are left out.
    """
    path = Path(path)
    lines = read_lines(path)
    tables = {delimiter: _rows(lines, delimiter) for delimiter in _DELIMITERS}
    if not any(line.strip() for line in lines):
        raise InputError(f"{path} has no terms; it needs one pair a line, such as: floor,Wort")
    widths = {delimiter: {len(row) for _, row in rows} for delimiter, rows in tables.items()}
    fitting = [delimiter for delimiter, found in widths.items() if len(found) == 1 and min(found) >= 2]
    if not fitting:
        raise _irregular(path, tables)
    rows = tables[fitting[0]]
    header = [field.strip().lower() for field in rows[0][1]]
    source = next((header.index(name) for name in SOURCE_NAMES if name in header), None)
    target = next((header.index(name) for name in TARGET_NAMES if name in header), None)
    if source is not None and target is not None:
        rows = rows[1:]
        if not rows:
            raise InputError(f"{path} has a header but no terms.")
    elif len(header) == 2:
        source, target = 0, 1
    else:
        raise InputError(
            f"{path}, line {rows[0][0]}: {len(header)} columns and no header that says which to take; "
            "call two of them source and target."
        )
    return [_pair(path, number, row[source].strip(), row[target].strip()) for number, row in rows]


def _rows(lines: list[str], delimiter: str) -> list[tuple[int, list[str]]]:
    """Line number and fields of every line that is not empty; no fields where the quotes do not match."""
    rows = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                rows.append((number, next(csv.reader([line], delimiter=delimiter, strict=True))))
            except (csv.Error, StopIteration):
                rows.append((number, []))
    return rows


def _irregular(path: Path, tables: dict[str, list[tuple[int, list[str]]]]) -> InputError:
    """Blame the first line that differs from the rest, with the separator that cuts most lines in two."""
    delimiter = max(tables, key=lambda d: sum(len(row) == 2 for _, row in tables[d]))
    for number, row in tables[delimiter]:
        if not row:
            return InputError(f"{path}, line {number}: a double quote is not closed, or stands inside a field.")
        if len(row) != 2:
            return InputError(
                f"{path}, line {number}: {len(row)} fields instead of 2, separated by {_DELIMITERS[delimiter]}; "
                "put a field that contains one in double quotes."
            )
    return InputError(f"{path}: the lines have different numbers of fields.")


def _pair(path: Path, number: int, source: str, target: str) -> Pair:
    if not source or not target:
        raise InputError(f"{path}, line {number}: a side of the pair is empty; fill it in or delete the line.")
    return Pair(source, target)
