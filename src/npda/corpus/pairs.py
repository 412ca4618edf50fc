"""Bilingual text: tab-separated pairs, and pairs of line-aligned files (Moses)."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from npda.corpus.manifest import column_places, join_row, split_row
from npda.errors import InputError
from npda.files import read_lines, write_lines

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
    path = Path(path)
    lines = read_lines(path)
    header = lines[0].split("\t") if lines else []
    first = 1
    if any(name in header for name in REQUIRED):
        first = 2
        lines = lines[1:]
    else:
        header = list(REQUIRED)
    if not lines:
        raise InputError(f"{path} has no sentence pairs; it needs one pair a line, separated by a tab.")
    places = column_places(path, header, REQUIRED, COLUMNS)
    pairs = []
    for number, line in enumerate(lines, start=first):
        row = split_row(path, number, line, len(header))
        pair = Pair(**{name: row[place] for name, place in places.items()})
        for name in REQUIRED:
            if not getattr(pair, name).strip():
                raise InputError(f"{path}, line {number}, column {name}: empty; fill it in or delete the line.")
        pairs.append(pair)
    return pairs


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
    source, target = read_lines(source_path), read_lines(target_path)
    if len(source) != len(target):
        shorter = source_path if len(source) < len(target) else target_path
        raise InputError(
            f"{source_path} has {len(source)} lines but {target_path} has {len(target)}: "
            f"line {min(len(source), len(target)) + 1} is lacking in {shorter}; align the two files again."
        )
    pairs = [Pair(src, tgt) for src, tgt in zip(source, target, strict=True) if src.strip() and tgt.strip()]
    if skipped := len(source) - len(pairs):
        logger.warning("%s, %s: skipped %d pairs of which one side is empty", source_path, target_path, skipped)
    if not pairs:
        raise InputError(f"{source_path} and {target_path} have no sentence pairs.")
    return pairs
