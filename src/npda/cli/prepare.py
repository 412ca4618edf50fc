"""npda prepare: published corpora become manifests and pairs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npda.cli.options import AsJson, Quiet, Verbose, codes, shows_progress
from npda.cli.verbs import Verb
from npda.corpus.leak_report import (
    REPORT_COLUMNS,
    WHY,
    check_outputs,
    held_out_pairs,
    kinds,
    leakage_record,
    report_row,
    table_writer,
)
from npda.io.errors import InputError
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from npda.corpus.leakage import LeakageFilter, LeakageReport
    from npda.corpus.manifest import Utterance
    from npda.corpus.pairs import Pair

prepare = typer.Typer(
    help="""Make manifests and pairs from the paper's corpora, once you have downloaded them.

    Examples:

        npda prepare mustc corpora/MUSTC_v1.0 --language de --out data/mustc-de

        npda prepare europarl-st corpora/europarl-st/v1.1 --language de --out data/europarl-st-de

        npda prepare europarl corpora/europarl-v7 --language de \\
            --against data/europarl-st-de/test.tsv --out ep-de.tsv
    """,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Those of the paper.
MUSTC_SPLITS = ["train", "dev", "tst-COMMON"]
EUROPARL_ST_SPLITS = ["train", "dev", "test"]

Languages = Annotated[
    list[str],
    typer.Option(
        "--language", callback=codes, help="Target language: German or de; repeat it to put several into one manifest."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder for the manifests, one for each split.")]
MaxFrames = Annotated[
    int | None, typer.Option(min=1, help="Drop longer utterances, in 10 ms frames (paper: 3000, in every split).")
]


@prepare.command(cls=Verb)
def mustc(
    root: Annotated[Path, typer.Argument(help="The folder that holds en-de, en-fr, …")],
    languages: Languages,
    out: Out,
    splits: Annotated[list[str], typer.Option("--split", help="train, dev, tst-COMMON or tst-HE.")] = MUSTC_SPLITS,
    max_frames: MaxFrames = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Manifests of MuST-C: TED talks in English, translated.

    Reads ROOT/en-xx/data/SPLIT/wav and txt as they come out of the archives. The manifests point into the talks; no
    audio is decoded or copied.

    Examples:

        npda prepare mustc corpora/MUSTC_v1.0 --language de --out data/mustc-de

        npda prepare mustc corpora/MUSTC_v1.0 --language de --language fr --split dev --out data/mustc-de-fr
    """
    from npda.corpus.mustc import read

    def read_split(language: str, split: str, remarks: Counter[str]) -> list[Utterance]:
        return read(root, language, split, remarks, progress=shows_progress(quiet, verbose, as_json))

    _manifests("MuST-C", read_split, languages, splits, out, max_frames, as_json)


@prepare.command(cls=Verb)
def europarl_st(
    root: Annotated[Path, typer.Argument(help="The folder that holds en, de, … (v1.1 in the archive).")],
    languages: Languages,
    out: Out,
    source: Annotated[str, typer.Option(callback=codes, help="Language of the speeches: English or en.")] = "en",
    splits: Annotated[list[str], typer.Option("--split", help="train, dev, test or train-noisy.")] = EUROPARL_ST_SPLITS,
    max_frames: MaxFrames = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Manifests of Europarl-ST: speeches in the European Parliament, translated.

    Reads ROOT/en/audios and ROOT/en/xx/SPLIT/segments.* as they come out of the archive. The manifests point into the
    speeches (m4a); a wav or flac of the same name is preferred, since it is faster to read.

    Examples:

        npda prepare europarl-st corpora/europarl-st/v1.1 --language de --out data/europarl-st-de

        npda prepare europarl-st corpora/europarl-st/v1.1 --source fr --language en \\
            --out data/europarl-st-fr-en
    """
    from npda.corpus.europarl_st import read

    def read_split(language: str, split: str, remarks: Counter[str]) -> list[Utterance]:
        return read(root, source, language, split, remarks, progress=shows_progress(quiet, verbose, as_json))

    _manifests("Europarl-ST", read_split, languages, splits, out, max_frames, as_json)


@prepare.command(cls=Verb)
def europarl(
    root: Annotated[Path, typer.Argument(help="The folder that holds europarl-v7.xx-en.xx and .en (.gz too).")],
    language: Annotated[str, typer.Option(callback=codes, help="Target language: German or de.")],
    out: Annotated[Path, typer.Option(help="Pairs to write, .tsv or .tsv.gz.")],
    against: Annotated[
        list[Path] | None, typer.Option(help="Held-out manifest or pairs that must not leak; repeat it for several.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Table of the leaks that were dropped, and why (.tsv).")] = None,
    sample: Annotated[
        int, typer.Option(min=0, help="How many random pairs to take (paper: 2,000,000); 0 for all.")
    ] = 2_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws other pairs.")] = 0,
    max_words: Annotated[int, typer.Option(help="Drop pairs with more words on a side.")] = 250,
    max_ratio: Annotated[
        float, typer.Option(help="Drop pairs with more than this many times the words on one side.")
    ] = 9.0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Pairs of Europarl v7: cleaned, without leaks of the held-out sets, and sampled at random.

    The sample keeps the order of the corpus; the same seed draws the same pairs, and a larger sample contains the
    smaller. Memory does not grow with the corpus.

    Examples:

        npda prepare europarl corpora/europarl-v7 --language de --against data/europarl-st-de/dev.tsv \\
            --against data/europarl-st-de/test.tsv --report leaks-de.tsv --out data/europarl-de.tsv.gz

        npda prepare europarl corpora/europarl-v7 --language ro --sample 0 --against test.tsv \\
            --out data/europarl-ro.tsv
    """
    from npda.corpus.cleaning import CleaningSettings, clean
    from npda.corpus.europarl import files, stream
    from npda.corpus.leakage import LeakageFilter, LeakageReport
    from npda.corpus.pairs import COLUMNS
    from npda.corpus.sampling import sample_pairs
    from npda.io.progress import track

    settings = CleaningSettings(max_words, max_ratio)
    progress = shows_progress(quiet, verbose, as_json)
    held_out = against or []
    inputs = files(root, language)
    if report is not None and not held_out:
        raise InputError("--report lists what leaks a held-out set; name the held-out sets with --against.")
    check_outputs(out, report, inputs, held_out)
    leakage = None
    if held_out:
        leakage = LeakageFilter(pair for path in held_out for pair in held_out_pairs(path, ("en", language)))
    skipped: Counter[str] = Counter()
    leaks = LeakageReport(examples_each=1)
    written = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with table_writer(report, REPORT_COLUMNS) as drop, table_writer(out, COLUMNS) as keep:
        read = clean(track(stream(root, language), f"reading {inputs[1].name}", enabled=progress), settings, skipped)
        kept = _without_leaks(read, leakage, leaks, drop)
        if sample:
            kept = sample_pairs(kept, sample, seed, out.parent)
        for pair in kept:
            keep({name: getattr(pair, name) for name in COLUMNS})
            written += 1
        if not written:
            raise InputError(f"Nothing is left of {inputs[1]}: {_reasons(skipped, leaks)}.")
    record = {
        "corpus": "Europarl",
        "files": [str(path) for path in inputs],
        "against": [str(path) for path in held_out],
        "out": str(out),
        "pairs": written,
        "clean": leaks.kept,
        "sample": sample,
        "seed": seed,
        "skipped": dict(skipped),
        "settings": asdict(settings),
    }
    _print_europarl(record, leaks, skipped, as_json)


def _manifests(
    corpus: str,
    read_split: Callable[[str, str, Counter[str]], list[Utterance]],
    languages: list[str],
    splits: list[str],
    out: Path,
    max_frames: int | None,
    as_json: bool,
) -> None:
    """Read everything, then write: a fault in the last split leaves nothing behind."""
    from npda.corpus.manifest import within, write_manifest

    for name, given in (("--language", languages), ("--split", splits)):
        if len(set(given)) < len(given):
            raise InputError(f"{name} {' '.join(given)} names something twice.")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give the name of a folder.")
    read: dict[Path, list[Utterance]] = {}
    records = []
    for split in splits:
        remarks: Counter[str] = Counter()
        utterances = [one for language in languages for one in read_split(language, split, remarks)]
        if max_frames is not None:
            utterances, longer = within(utterances, max_frames)
            remarks[f"over {max_frames} frames"] = longer
        manifest = out / f"{split}.tsv"
        if not utterances:
            raise InputError(f"No utterance of {split} has at most {max_frames} frames; raise --max-frames.")
        read[manifest] = utterances
        hours = round(sum(one.n_frames for one in utterances) / 360_000, 2)
        files = {"split": split, "manifest": str(manifest)}
        records.append({**files, "utterances": len(utterances), "hours": hours, "remarks": dict(+remarks)})
    for manifest, utterances in read.items():
        write_manifest(manifest, utterances)
    if as_json:
        print(json.dumps({"corpus": corpus, "languages": languages, "splits": records}, ensure_ascii=False))
    else:
        _print_manifests(f"{corpus} → {', '.join(languages)}", records)


def _print_manifests(title: str, records: list[dict]) -> None:
    from rich.table import Table

    table = Table("split", "utterances", "hours", "manifest", "remarks", title=title)
    for record in records:
        remarks = "; ".join(f"{count:,} {what}" for what, count in record["remarks"].items())
        table.add_row(record["split"], f"{record['utterances']:,}", f"{record['hours']:,}", record["manifest"], remarks)
    open_console().print(table)


def _without_leaks(
    pairs: Iterable[Pair], leakage: LeakageFilter | None, leaks: LeakageReport, drop: Callable[[dict[str, str]], None]
) -> Iterator[Pair]:
    """The pairs that leak nothing; the others go into the report."""
    for pair in pairs:
        leak = leakage.find(pair) if leakage else None
        leaks.add(leak)
        if leak is None:
            yield pair
        else:
            drop(report_row(leak))


def _reasons(skipped: Counter[str], leaks: LeakageReport) -> str:
    counts = [*skipped.items(), ("that leak held-out sentences", leaks.dropped)]
    return ", ".join(f"{count:,} pairs {what}" for what, count in counts if count) or "it had no pairs"


def _print_europarl(record: dict, leaks: LeakageReport, skipped: Counter[str], as_json: bool) -> None:
    if as_json:
        print(json.dumps({**record, "leakage": leakage_record(leaks)}, ensure_ascii=False))
        return
    for what, count in skipped.items():
        print(f"dropped {count:,} pairs {what}")
    for reason, side in kinds(leaks):
        print(f"dropped {leaks.counts[reason, side]:,} pairs: {WHY[reason].format(side=side)}")
    if not record["against"]:
        print("compared with no held-out set; name dev and test with --against")
    of = "" if record["pairs"] == record["clean"] else f", a sample of {record['clean']:,} with seed {record['seed']},"
    print(f"Wrote {record['pairs']:,} pairs{of} to {record['out']}.")
