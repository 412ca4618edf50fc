"""npda filter: training text without what gives away the dev and test sets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, codes, shows_progress
from npda.corpus.leak_report import (
    REPORT_COLUMNS,
    WHY,
    check_outputs,
    held_out_pairs,
    kinds,
    leakage_record,
    pairs_of,
    report_row,
    table_writer,
)
from npda.corpus.leakage import LeakageReport, LeakageSettings
from npda.corpus.pairs import COLUMNS
from npda.io.errors import InputError
from npda.io.terminal import open_console

DEFAULTS = LeakageSettings()


def filter_(
    against: Annotated[
        list[Path], typer.Option(help="Held-out manifest, pairs (.tsv) or .tmx; repeat it for several.")
    ],
    out: Annotated[Path, typer.Option(help="Pairs to write, .tsv or .tsv.gz.")],
    train: Annotated[Path | None, typer.Argument(help="Training pairs, .tsv or .tmx.", show_default=False)] = None,
    source: Annotated[Path | None, typer.Option(help="Moses: training text, source side.")] = None,
    target: Annotated[Path | None, typer.Option(help="Moses: training text, target side.")] = None,
    source_language: Annotated[
        str | None, typer.Option(callback=codes, help="Source language of a .tmx: English or en.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(callback=codes, help="Target language of a .tmx: German or de.")
    ] = None,
    target_language: Annotated[str | None, typer.Option(callback=codes, hidden=True)] = None,
    report: Annotated[Path | None, typer.Option(help="Table to write of what was dropped, and why (.tsv).")] = None,
    threshold: Annotated[
        float, typer.Option(help="Share of five-word sequences that makes a near-duplicate.")
    ] = DEFAULTS.threshold,
    short_threshold: Annotated[
        float, typer.Option(help="The same for sides under 60 letters: similarity of four-letter sequences.")
    ] = DEFAULTS.short_threshold,
    min_words: Annotated[
        int, typer.Option(help="A side with fewer words leaks only if both sides equal those of a held-out pair.")
    ] = DEFAULTS.min_words,
    examples: Annotated[int, typer.Option(min=0, help="Examples to show of every kind.")] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Drop training pairs that leak dev or test sentences.

    A pair is dropped if its source or its target equals a held-out one, contains one, is part of one or nearly equals
    one. Case, punctuation and white space do not count; parts and near-duplicates have at least five words. Stock
    phrases such as "Thank you." are dropped as well if they are held out; --min-words 3 keeps them unless the whole
    pair is held out. Every file may be gzipped (.gz).

    Examples:

        npda filter runs/demo/data/domain.tsv --against runs/demo/data/dev.tsv \\
            --against runs/demo/data/test.tsv --out clean.tsv

        npda filter --source runs/demo/data/domain.en --target runs/demo/data/domain.de \\
            --against runs/demo/data/test.tsv --out clean.tsv

        npda filter runs/demo/data/memory.tmx --source-language en --language de \\
            --against runs/demo/data/test.tsv --out clean.tsv.gz
    """
    settings = LeakageSettings(min_words=min_words, threshold=threshold, short_threshold=short_threshold)
    inputs = [path for path in (train, source, target) if path is not None]
    if [train is None, source is None, target is None] not in ([False, True, True], [True, False, False]):
        raise InputError("Give the training text as one file, or as --source and --target, and not as both.")
    check_outputs(out, report, inputs, against)
    languages = (source_language, language or target_language)

    from npda.corpus.leakage import LeakageFilter
    from npda.corpus.pairs import stream_moses
    from npda.io.progress import SHORT, track

    leakage = LeakageFilter((pair for path in against for pair in held_out_pairs(path, languages)), settings)
    pairs = pairs_of(train, languages) if train else stream_moses(*inputs)
    summary = LeakageReport(examples_each=examples)
    with table_writer(out, COLUMNS) as keep, table_writer(report, REPORT_COLUMNS) as drop:
        for pair in track(pairs, "filtering", enabled=shows_progress(quiet, verbose, as_json), after=SHORT):
            leak = leakage.find(pair)
            summary.add(leak)
            if leak is None:
                keep({name: getattr(pair, name) for name in COLUMNS})
            else:
                drop(report_row(leak))
        if not summary.kept:
            raise InputError(
                f"All {summary.dropped} training pairs leak the held-out sets; "
                "check whether --against names the training text itself."
            )
    if as_json:
        files = {"train": [str(path) for path in inputs], "against": [str(path) for path in against], "out": str(out)}
        print(json.dumps({**files, **leakage_record(summary), "settings": asdict(settings)}, ensure_ascii=False))
    else:
        _print(summary, out)


def _print(summary: LeakageReport, out: Path) -> None:
    from rich.table import Table

    console = open_console()
    total = summary.kept + summary.dropped
    table = Table("dropped because", "pairs", "share")
    for reason, side in kinds(summary):
        count = summary.counts[reason, side]
        table.add_row(WHY[reason].format(side=side), f"{count:,}", f"{count / total:.2%}")
    if summary.dropped:
        console.print(table)
    lines = [f"Kept {summary.kept:,} of {total:,} pairs ({summary.kept / total:.1%}) in {out}."]
    for kind in kinds(summary):
        for leak in summary.examples[kind]:
            field = "tgt_text" if leak.side == "target" else "src_text"
            overlap = f" ({leak.overlap:.2f})" if leak.reason == "near" else ""
            lines += ["", f"{WHY[leak.reason].format(side=leak.side)}{overlap}:"]
            lines += [f"  dropped   {_short(getattr(leak.pair, field))}"]
            lines += [f"  held out  {_short(getattr(leak.held_out, field))}"]
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _short(text: str, width: int = 160) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
