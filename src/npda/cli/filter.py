"""npda filter: training text without what gives away the dev and test sets."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from npda.corpus.leakage import REASONS, SIDES, Leak, LeakageReport, LeakageSettings
from npda.corpus.pairs import COLUMNS, Pair
from npda.errors import InputError

DEFAULTS = LeakageSettings()
WHY = {
    "equal": "the {side} is a held-out one",
    "contained": "the {side} is part of a held-out one",
    "containing": "the {side} has a held-out one as part",
    "near": "the {side} is nearly a held-out one",
}
_HOW, _HELD_OUT = ("reason", "side", "overlap"), ("held_out_id", "held_out_src_text", "held_out_tgt_text")
REPORT_COLUMNS = (*_HOW, "id", "src_text", "tgt_text", *_HELD_OUT)


def filter_(
    against: Annotated[
        list[Path], typer.Option(help="Held-out manifest, pairs (.tsv) or .tmx; may be given several times.")
    ],
    out: Annotated[Path, typer.Option(help="Pairs to write, .tsv or .tsv.gz.")],
    train: Annotated[Path | None, typer.Argument(help="Training pairs, .tsv or .tmx.", show_default=False)] = None,
    source: Annotated[Path | None, typer.Option(help="Moses: training text, source side.")] = None,
    target: Annotated[Path | None, typer.Option(help="Moses: training text, target side.")] = None,
    source_language: Annotated[str | None, typer.Option(help="Source language of a .tmx, e.g. en.")] = None,
    target_language: Annotated[str | None, typer.Option(help="Target language of a .tmx, e.g. de.")] = None,
    report: Annotated[Path | None, typer.Option(help="Table of what was dropped, and why (.tsv).")] = None,
    threshold: Annotated[
        float, typer.Option(help="Share of five-word sequences that makes a near-duplicate.")
    ] = DEFAULTS.threshold,
    short_threshold: Annotated[
        float, typer.Option(help="The same for sides under 60 letters: similarity of four-letter sequences.")
    ] = DEFAULTS.short_threshold,
    min_words: Annotated[
        int, typer.Option(help="A side with fewer words leaks only if both sides are equal to a held-out pair's.")
    ] = DEFAULTS.min_words,
    examples: Annotated[int, typer.Option(min=0, help="Examples to show of every kind.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Drop training pairs that leak dev or test sentences.

    A pair is dropped when its source or its target equals a held-out one, contains one, is part of one or nearly is
    one. Case, punctuation and white space do not count; parts and near-duplicates have at least five words. Stock
    phrases such as "Thank you." go as well when they are held out; --min-words 3 keeps them unless the whole pair is
    held out. Every file may be gzipped (.gz).

    Examples:

        npda filter train.tsv --against dev.tsv --against test.tsv --out clean.tsv

        npda filter --source train.en --target train.de --against test.tsv --out clean.tsv --report dropped.tsv

        npda filter memory.tmx --source-language en --target-language de --against test.tsv --out clean.tsv.gz
    """
    settings = LeakageSettings(min_words=min_words, threshold=threshold, short_threshold=short_threshold)
    inputs = [path for path in (train, source, target) if path is not None]
    if [train is None, source is None, target is None] not in ([False, True, True], [True, False, False]):
        raise InputError("Give the training text as one file, or as --source and --target, and not as both.")
    _check_outputs(out, report, inputs, against)
    languages = (source_language, target_language)

    from npda.corpus.leakage import LeakageFilter
    from npda.corpus.pairs import stream_moses
    from npda.progress import track

    leakage = LeakageFilter((pair for path in against for pair in _held_out(path, languages)), settings)
    pairs = _pairs(train, languages) if train else stream_moses(*inputs)
    summary = LeakageReport(examples_each=examples)
    with _table(out, COLUMNS) as keep, _table(report, REPORT_COLUMNS) as drop:
        for pair in track(pairs, "filtering"):
            leak = leakage.find(pair)
            summary.add(leak)
            if leak is None:
                keep({name: getattr(pair, name) for name in COLUMNS})
            else:
                drop(_row(leak))
        if not summary.kept:
            raise InputError(
                f"All {summary.dropped} training pairs leak the held-out sets; "
                "look whether --against names the training text itself."
            )
    if as_json:
        files = {"train": [str(path) for path in inputs], "against": [str(path) for path in against], "out": str(out)}
        print(json.dumps({**files, **_record(summary), "settings": asdict(settings)}, ensure_ascii=False))
    else:
        _print(summary, out)


def _check_outputs(out: Path, report: Path | None, inputs: Iterable[Path], against: Iterable[Path]) -> None:
    taken = {path.resolve(): "an input" for path in (*inputs, *against)}
    for name, path in (("--out", out), ("--report", report)):
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"{name} {path} is a directory; give the name of a file.")
        if use := taken.get(path.resolve()):
            raise InputError(f"{name} {path} is {use} too; choose another name.")
        taken[path.resolve()] = "--out"


def _pairs(path: Path, languages: tuple[str | None, str | None]) -> Iterable[Pair]:
    from npda.corpus.pairs import stream_pairs
    from npda.corpus.tmx import read_tmx

    if not path.name.endswith((".tmx", ".tmx.gz")):
        return stream_pairs(path)
    source, target = languages
    if not source or not target:
        raise InputError(f"{path} may hold many languages; add --source-language and --target-language.")
    return read_tmx(path, source, target)


def _held_out(path: Path, languages: tuple[str | None, str | None]) -> Iterable[Pair]:
    """As for training, except that a manifest need not have transcripts."""
    from npda.corpus.manifest import read_manifest

    if {"audio", "n_frames"} <= set(_first_line(path).split("\t")):
        return [Pair(u.src_text, u.tgt_text, u.id, u.tgt_lang) for u in read_manifest(path)]
    return _pairs(path, languages)


def _first_line(path: Path) -> str:
    """Empty for a file that cannot be read; the reader that comes next says why."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            return stream.readline(10_000).decode("utf-8-sig", errors="replace").rstrip("\r\n")
    except (OSError, EOFError, zlib.error):
        return ""


@contextmanager
def _table(path: Path | None, columns: tuple[str, ...]) -> Iterator[Callable[[dict[str, str]], None]]:
    """A TSV with a header, written row by row and published at the end; no path, no table."""
    from npda.corpus.manifest import join_row
    from npda.files import atomic_write

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


def _row(leak: Leak) -> dict[str, str]:
    """A row of the report."""
    pair, held_out = leak.pair, leak.held_out
    how = (leak.reason, leak.side, f"{leak.overlap:.3f}")
    texts = (pair.id, pair.src_text, pair.tgt_text, held_out.id, held_out.src_text, held_out.tgt_text)
    return dict(zip(REPORT_COLUMNS, (*how, *texts), strict=True))


def _kinds(summary: LeakageReport) -> list:
    return [(reason, side) for reason in REASONS for side in SIDES if summary.counts[reason, side]]


def _record(summary: LeakageReport) -> dict:
    kinds = _kinds(summary)
    return {
        "pairs": summary.kept + summary.dropped,
        "kept": summary.kept,
        "dropped": summary.dropped,
        "reasons": [{"reason": kind[0], "side": kind[1], "pairs": summary.counts[kind]} for kind in kinds],
        "examples": [asdict(leak) for kind in kinds for leak in summary.examples[kind]],
    }


def _print(summary: LeakageReport, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    total = summary.kept + summary.dropped
    table = Table("dropped because", "pairs", "share")
    for reason, side in _kinds(summary):
        count = summary.counts[reason, side]
        table.add_row(WHY[reason].format(side=side), f"{count:,}", f"{count / total:.2%}")
    if summary.dropped:
        console.print(table)
    lines = [f"Kept {summary.kept:,} of {total:,} pairs ({summary.kept / total:.1%}) in {out}."]
    for kind in _kinds(summary):
        for leak in summary.examples[kind]:
            field = "tgt_text" if leak.side == "target" else "src_text"
            overlap = f" ({leak.overlap:.2f})" if leak.reason == "near" else ""
            lines += ["", f"{WHY[leak.reason].format(side=leak.side)}{overlap}:"]
            lines += [f"  dropped   {_short(getattr(leak.pair, field))}"]
            lines += [f"  held out  {_short(getattr(leak.held_out, field))}"]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _short(text: str, width: int = 160) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
