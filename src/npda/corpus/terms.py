"""Term lists: small tables of what is said and what is to be written, separated by tabs, semicolons or commas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npda.io.errors import InputError
from npda.io.files import read_lines, write_lines

# Column names that say which side is which; a header is recognised by having one of each.
SOURCE_NAMES = ("src_text", "source", "src", "source term", "term")
TARGET_NAMES = ("tgt_text", "target", "tgt", "target term", "translation")
# What a header may name besides.
SOURCE_PLURAL, TARGET_PLURAL, LIKE = "source_plural", "target_plural", "like"
RENDERINGS, PURITY, CONTEXTS, FORM = "renderings", "purity", "contexts", "form"
PLURAL = "plural"  # the one value of the column form

COLUMNS = ("source", "target", RENDERINGS, PURITY, CONTEXTS, FORM, LIKE)  # of a learnt list
SEPARATOR = "|"  # between the sources of a term, and between its renderings

_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}


@dataclass(frozen=True, slots=True)
class Rendering:
    """A way the model writes a term. purity: how often, of all the times it writes this, the term was said"""

    text: str
    purity: float


@dataclass(frozen=True, slots=True)
class Term:
    """What is said, and what is to be written then.

    sources: ways to say it, which are treated alike; like: a word of the source language whose translation asks for
    the same articles as ``target``; renderings: None until they are learnt; contexts: sentences they were learnt from;
    plural: whether it is the plural of a term before it; where: the file and the line
    """

    sources: tuple[str, ...]
    target: str
    like: str = ""
    renderings: tuple[Rendering, ...] | None = None
    contexts: int = 0
    plural: bool = False
    where: str = ""

    @property
    def source(self) -> str:
        return f" {SEPARATOR} ".join(self.sources)

    @property
    def key(self) -> tuple[str, bool]:
        """The same for two lines about one term."""
        return self.source, self.plural


def read_terms(path: str | Path) -> list[Term]:
    """Read a list: source first, target second, or in the columns that a header names (see SOURCE_NAMES).

    A header may also name ``like``, and ``source_plural`` and ``target_plural``, which give a term of their own; the
    lists that `npda terms` writes have the columns COLUMNS. The separator is the first of tab, semicolon and comma that
    cuts every line into equally many fields, at least two; a field that contains it stands in double quotes. Empty
    lines are left out.
    """
    path = Path(path)
    rows, places = _table(path)
    terms: list[Term] = []
    seen: dict[tuple[str, bool], str] = {}
    for number, row in rows:
        where = f"{path}, line {number}"
        for term in _line(where, {name: row[place].strip() for name, place in places.items()}):
            for source in term.sources:
                key = (source.casefold(), term.plural)
                if key in seen:
                    raise InputError(f"{where}: {source!r} is in {seen[key]} already; delete one of the two.")
                seen[key] = f"line {number}"
            terms.append(term)
    return terms


def write_terms(path: str | Path, terms: Iterable[Term]) -> None:
    """Write a learnt list as a TSV that ``read_terms`` and any spreadsheet open, atomically."""
    lines = [_join(COLUMNS)]
    for term in terms:
        renderings = term.renderings or ()
        fields = (
            term.source,
            term.target,
            f" {SEPARATOR} ".join(rendering.text for rendering in renderings),
            f" {SEPARATOR} ".join(f"{rendering.purity:.2f}" for rendering in renderings),
            str(term.contexts),
            PLURAL if term.plural else "",
            term.like,
        )
        lines.append(_join(fields))
    write_lines(path, lines)


def _join(fields: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, delimiter="\t", lineterminator="").writerow(fields)
    return line.getvalue()


def _table(path: Path) -> tuple[list[tuple[int, list[str]]], dict[str, int]]:
    """Line number and fields of every line, and where the columns are."""
    lines = read_lines(path)
    tables = {delimiter: _rows(lines, delimiter) for delimiter in _DELIMITERS}
    if not any(line.strip() for line in lines):
        raise InputError(f"{path} has no terms; it needs one pair per line, such as: floor,Wort")
    widths = {delimiter: {len(row) for _, row in rows} for delimiter, rows in tables.items()}
    fitting = [delimiter for delimiter, found in widths.items() if len(found) == 1 and min(found) >= 2]
    if not fitting:
        raise _irregular(path, tables)
    rows = tables[fitting[0]]
    header = [field.strip().lower() for field in rows[0][1]]
    source = next((header.index(name) for name in SOURCE_NAMES if name in header), None)
    target = next((header.index(name) for name in TARGET_NAMES if name in header), None)
    if source is not None and target is not None:
        if len(rows) == 1:
            raise InputError(f"{path} has a header but no terms.")
        more = (SOURCE_PLURAL, TARGET_PLURAL, *COLUMNS[2:])
        others = {name: header.index(name) for name in more if name in header}
        return rows[1:], {"source": source, "target": target, **others}
    if len(header) == 2:
        return rows, {"source": 0, "target": 1}
    raise InputError(
        f"{path}, line {rows[0][0]}: {len(header)} columns and no header that says which to take; "
        "call two of them source and target."
    )


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


def _line(where: str, fields: dict[str, str]) -> list[Term]:
    """The term of a line, and its plural if it has one. fields: by column"""
    sources, target = _distinct(fields["source"]), fields["target"]
    if not sources or not target:
        raise InputError(f"{where}: a side of the pair is empty; fill it in or delete the line.")
    if not any(character.isalnum() for character in "".join(sources)):
        raise InputError(f"{where}: {fields['source']!r} contains no letter, so it cannot be spoken.")
    form = fields.get(FORM, "")
    if form not in ("", PLURAL):
        raise InputError(f"{where}: the column {FORM} says {PLURAL} or nothing, not {form!r}.")
    contexts = fields.get(CONTEXTS, "") or "0"
    if not (contexts.isascii() and contexts.isdigit()):
        raise InputError(f"{where}: the column {CONTEXTS} is a number of sentences, not {contexts!r}.")
    renderings = _renderings(where, fields) if RENDERINGS in fields else None
    like = fields.get(LIKE, "")
    found = [Term(sources, target, like, renderings, int(contexts), form == PLURAL, where)]
    plural, several = fields.get(TARGET_PLURAL, ""), _distinct(fields.get(SOURCE_PLURAL, ""))
    if several and not plural:
        raise InputError(f"{where}: there is a {SOURCE_PLURAL} but no {TARGET_PLURAL}; fill in both or neither.")
    if plural:
        # Said alike, as in "der Lehrer, die Lehrer", it is told by its renderings.
        found.append(Term(several or sources, plural, like, None, 0, True, where))
    return found


def _renderings(where: str, fields: dict[str, str]) -> tuple[Rendering, ...]:
    """Those without a purity, which a person has added, are as likely to mean the term as not."""
    texts, numbers = _parts(fields[RENDERINGS]), _parts(fields.get(PURITY, ""))
    if len(numbers) > len(texts):
        raise InputError(f"{where}: there are {len(numbers)} numbers in {PURITY} for {len(texts)} {RENDERINGS}.")
    purities = [_share(where, number) for number in numbers] + [0.5] * (len(texts) - len(numbers))
    return tuple(Rendering(text, purity) for text, purity in zip(texts, purities, strict=True))


def _share(where: str, number: str) -> float:
    try:
        share = float(number)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"{where}: a {PURITY} is a number between 0 and 1, not {number!r}.")
    return share


def _parts(field: str) -> tuple[str, ...]:
    return tuple(part for each in field.split(SEPARATOR) if (part := each.strip()))


def _distinct(field: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_parts(field)))
