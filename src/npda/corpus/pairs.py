"""Bilingual text: tab-separated pairs, and pairs of line-aligned files (Moses)."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path

from npda.corpus.manifest import check_language, column_places, join_row, split_row
from npda.io.errors import InputError
from npda.io.files import stream_lines, write_lines

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pair:
    """A transcript and its translation."""

    src_text: str
    tgt_text: str
    id: str = ""
    tgt_lang: str = ""


COLUMNS = tuple(field.name for field in fields(Pair))
REQUIRED = ("src_text", "tgt_text")


def read_pairs(path: str | Path) -> list[Pair]:
    """Read a TSV of pairs: with a header naming src_text and tgt_text, or just two columns without one.

    A speech manifest with transcripts is such a file too. There is no quoting; .gz is read as well.
    """
    return list(stream_pairs(path))


def stream_pairs(path: str | Path) -> Iterator[Pair]:
    """The same, a pair at a time: for files that need not fit into memory."""
    path = Path(path)
    places: dict[str, int] = {}
    width = found = 0
    for number, line in enumerate(stream_lines(path), start=1):
        if number == 1:
            header = line.split("\t")
            named = any(name in header for name in REQUIRED)
            header = header if named else list(REQUIRED)
            places, width = column_places(path, header, REQUIRED, COLUMNS), len(header)
            if named:
                continue
        row = split_row(path, number, line, width)
        pair = Pair(**{name: row[place] for name, place in places.items()})
        for name in REQUIRED:
            if not getattr(pair, name).strip():
                raise InputError(f"{path}, line {number}, column {name}: empty; fill it in or delete the line.")
        check_language(f"{path}, line {number}", "tgt_lang", pair.tgt_lang)
        found += 1
        yield pair
    if not found:
        raise InputError(f"{path} has no sentence pairs; it needs one pair per line, separated by a tab.")


def write_pairs(path: str | Path, pairs: Iterable[Pair]) -> None:
    """Write a TSV of pairs with a header, atomically."""
    lines = ["\t".join(COLUMNS)]
    for number, pair in enumerate(pairs, start=2):
        where = f"{path}, line {number}"
        if not (pair.src_text.strip() and pair.tgt_text.strip()):
            raise InputError(f"{where}: a side of the pair is empty; fill it in or leave the pair out.")
        lines.append(join_row(where, {name: getattr(pair, name) for name in COLUMNS}))
    write_lines(path, lines)


def read_moses(source_path: str | Path, target_path: str | Path) -> list[Pair]:
    """Read two line-aligned files; line n of one translates line n of the other.

    Pairs with an empty side are skipped and counted in a warning: raw corpora of this kind, Europarl for
    one, mark an unaligned sentence by an empty line, so that it is no fault of the user's file.
    """
    return list(stream_moses(source_path, target_path))


def stream_moses(source_path: str | Path, target_path: str | Path) -> Iterator[Pair]:
    """The same, a pair at a time: for files that need not fit into memory."""
    found = skipped = 0
    lines = zip_longest(stream_lines(source_path), stream_lines(target_path))
    for number, (source, target) in enumerate(lines, start=1):
        if source is None or target is None:
            longer = number + sum(1 for _ in lines)
            counts = (number - 1, longer) if source is None else (longer, number - 1)
            raise InputError(
                f"{source_path} has {counts[0]} lines but {target_path} has {counts[1]}: line {number} is missing "
                f"in {source_path if source is None else target_path}; align the two files again."
            )
        if source.strip() and target.strip():
            found += 1
            yield Pair(source, target)
        else:
            skipped += 1
    if skipped:
        logger.warning("%s, %s: skipped %d pairs of which one side is empty", source_path, target_path, skipped)
    if not found:
        raise InputError(f"{source_path} and {target_path} have no sentence pairs.")
