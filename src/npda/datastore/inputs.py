"""Large corpora one pair at a time: the same files as ``npda.corpus.pairs`` reads, without holding them in memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from npda.corpus.manifest import column_places, split_row
from npda.corpus.pairs import COLUMNS, REQUIRED, Pair
from npda.errors import InputError


def stream_pairs(path: str | Path) -> Iterator[Pair]:
    """The pairs of a TSV, with or without a header; see ``read_pairs``."""
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
        found += 1
        yield pair
    if not found:
        raise InputError(f"{path} has no sentence pairs; it needs one pair a line, separated by a tab.")


def stream_moses(source_path: str | Path, target_path: str | Path) -> Iterator[Pair]:
    """The pairs of two line-aligned files, without those of which a side is empty; see ``read_moses``."""
    found = False
    lines = zip_longest(stream_lines(source_path), stream_lines(target_path))
    for number, (source, target) in enumerate(lines, start=1):
        if source is None or target is None:
            shorter = source_path if source is None else target_path
            raise InputError(f"{shorter} has no line {number}, the other file has: align the two files again.")
        if source.strip() and target.strip():
            found = True
            yield Pair(source, target)
    if not found:
        raise InputError(f"{source_path} and {target_path} have no sentence pairs.")


def stream_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 text file (.gz too), without line ends; only LF and CRLF end a line."""
    path = Path(path)
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}); compress or copy it again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
