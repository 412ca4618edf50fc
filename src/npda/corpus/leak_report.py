"""Held-out sets in, tables of the pairs that were kept and dropped out.

What ``npda filter`` and ``npda prepare europarl`` have in common.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from npda.corpus.leakage import REASONS, SIDES, Leak, LeakageReport
from npda.corpus.pairs import Pair, stream_pairs
from npda.io.errors import InputError

WHY = {
    "equal": "the {side} is a held-out one",
    "contained": "the {side} is part of a held-out one",
    "containing": "the {side} has a held-out one as part",
    "near": "the {side} is nearly a held-out one",
}
_HOW, _HELD_OUT = ("reason", "side", "overlap"), ("held_out_id", "held_out_src_text", "held_out_tgt_text")
REPORT_COLUMNS = (*_HOW, "id", "src_text", "tgt_text", *_HELD_OUT)


def check_outputs(out: Path, report: Path | None, inputs: Iterable[Path], against: Iterable[Path]) -> None:
    """Refuse to write over an input or over each other, before hours of work."""
    taken = {path.resolve(): "an input" for path in (*inputs, *against)}
    for name, path in (("--out", out), ("--report", report)):
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{name} {path} is a directory; give the name of a file.")
        if use := taken.get(path.resolve()):
            raise InputError(f"{name} {path} is {use} too; choose another name.")
        taken[path.resolve()] = "--out"


def pairs_of(path: Path, languages: tuple[str | None, str | None]) -> Iterable[Pair]:
    """Pairs of a .tsv or of a .tmx. languages: source and target, which only a .tmx needs"""
    from npda.corpus.tmx import read_tmx

    if not path.name.endswith((".tmx", ".tmx.gz")):
        return stream_pairs(path)
    source, target = languages
    if not source or not target:
        raise InputError(f"{path} may hold many languages; add --source-language and --language.")
    return read_tmx(path, source, target)


def held_out_pairs(path: Path, languages: tuple[str | None, str | None]) -> Iterable[Pair]:
    """As ``pairs_of``, except that a manifest need not have transcripts."""
    from npda.corpus.manifest import read_manifest

    if {"audio", "n_frames"} <= set(_first_line(path).split("\t")):
        return [Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang) for u in read_manifest(path)]
    return pairs_of(path, languages)


def _first_line(path: Path) -> str:
    """Empty for a file that cannot be read; the reader that comes next says why."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            return stream.readline(10_000).decode("utf-8-sig", errors="replace").rstrip("\r\n")
    except (OSError, EOFError, zlib.error):
        return ""


@contextmanager
def table_writer(path: Path | None, columns: tuple[str, ...]) -> Iterator[Callable[[dict[str, str]], None]]:
    """A TSV with a header, written row by row and published at the end; no path, no table."""
    from npda.corpus.manifest import join_row
    from npda.io.files import atomic_write

    if path is None:
        yield lambda row: None
        return
    with (
        atomic_write(path) as temporary,
        open(temporary, "wb") as content,
        # Without a name and a time stamp the same rows give the same bytes.
        gzip.GzipFile("", "wb", fileobj=content, mtime=0) if path.suffix == ".gz" else content as stream,
    ):

        def write(row: dict[str, str]) -> None:
            stream.write(f"{join_row(str(path), row)}\n".encode())

        write({name: name for name in columns})
        yield write


def report_row(leak: Leak) -> dict[str, str]:
    """A row of the report."""
    pair, held_out = leak.pair, leak.held_out
    how = (leak.reason, leak.side, f"{leak.overlap:.3f}")
    texts = (pair.id, pair.src_text, pair.tgt_text, held_out.id, held_out.src_text, held_out.tgt_text)
    return dict(zip(REPORT_COLUMNS, (*how, *texts), strict=True))


def kinds(summary: LeakageReport) -> list:
    """(reason, side) of what was dropped."""
    return [(reason, side) for reason in REASONS for side in SIDES if summary.counts[reason, side]]


def leakage_record(summary: LeakageReport) -> dict:
    """For scripts."""
    found = kinds(summary)
    return {
        "pairs": summary.kept + summary.dropped,
        "kept": summary.kept,
        "dropped": summary.dropped,
        "reasons": [{"reason": kind[0], "side": kind[1], "pairs": summary.counts[kind]} for kind in found],
        "examples": [asdict(leak) for kind in found for leak in summary.examples[kind]],
    }
