"""npda evaluate: how good a translation is, and whether it is better than another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npda.cli.options import AsJson, Quiet, Verbose, shows_progress
from npda.io.errors import InputError
from npda.io.terminal import open_console

if TYPE_CHECKING:
    from npda.corpus.terms import Term
    from npda.evaluation.faults import Faults
    from npda.evaluation.scores import Score
    from npda.evaluation.significance import Comparison


class Metric(StrEnum):
    """What can be asked for: npda.evaluation.scores.METRICS, without the cost of importing them."""

    bleu = "bleu"
    chrf = "chrf"
    wer = "wer"
    wer_raw = "wer-raw"


def evaluate(
    hypotheses: Annotated[str, typer.Argument(help="Text with one sentence per line, or a .tsv; - is standard input.")],
    references: Annotated[str, typer.Argument(help="As many sentences: text, a manifest or pairs (.tsv).")],
    baseline: Annotated[str | None, typer.Option(help="Hypotheses of another system to compare with.")] = None,
    metric: Annotated[list[Metric], typer.Option(help="Metric to compute; repeat it for several.")] = [  # noqa: B006
        Metric.bleu,
        Metric.chrf,
    ],
    store: Annotated[
        list[Path] | None, typer.Option(help="Datastore that was on, to look for copies of its sentences; repeatable.")
    ] = None,
    terms: Annotated[
        list[Path] | None,
        typer.Option(help="Terms that were to be used, a list or a folder; the references need src_text; repeatable."),
    ] = None,
    column: Annotated[str, typer.Option(help="Column of a .tsv; src_text for transcripts.")] = "tgt_text",
    samples: Annotated[int, typer.Option(min=100, help="Resamples of the paired bootstrap.")] = 1000,
    seed: Annotated[int, typer.Option(min=1, help="Seed of the resamples, as SACREBLEU_SEED.")] = 12345,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score translations, and test whether they differ from a baseline's.

    BLEU and chrF are computed by sacreBLEU (13a, cased), with its signatures and its paired bootstrap test (Koehn
    2004). WER is computed by jiwer without case and punctuation (wer-raw: with both). Files may be gzipped (.gz).

    What goes wrong is counted beside BLEU and chrF: outputs cut short (under 60 % of the reference's words), empty, or
    looping; with --store also copies (another sentence than the reference, word by word from the store) and
    inventions (taken from the store, with nothing of the reference in them).

    With --terms it also counts how many of the terms that were said are written as wanted, exactly or but for an
    ending, and scores the sentences that hold none, which should stay as they are.

    Examples:

        npda evaluate runs/demo/data/adapted.txt runs/demo/data/test.tsv

        npda evaluate runs/demo/data/adapted.txt runs/demo/data/test.tsv --baseline runs/demo/data/base.txt

        npda translate runs/demo/data/test.tsv --model runs/demo/model \\
            | npda evaluate - runs/demo/data/test.tsv --json

        npda evaluate runs/demo/data/adapted.txt runs/demo/data/test.tsv --store runs/demo/stores/parliament-text

        npda evaluate runs/demo/data/adapted.txt runs/demo/data/test.tsv --terms runs/demo/data/terms.csv

        npda evaluate runs/demo/data/base.txt runs/demo/data/test.tsv --metric wer
    """
    if [hypotheses, references, baseline].count("-") > 1:
        raise InputError("Standard input (-) can stand for one file only.")
    system = _sentences(hypotheses, column)
    truth = _sentences(references, column)
    other = _sentences(baseline, column) if baseline is not None else None
    _check_aligned(hypotheses, system, references, truth)
    if baseline is not None and other is not None:
        _check_aligned(baseline, other, references, truth)

    listed = _terms(terms) if terms else []
    sources = _sources(references) if listed else []

    from npda.datastore.store import Datastore
    from npda.evaluation.faults import StoreText, count_faults, find_faults
    from npda.evaluation.scores import score
    from npda.evaluation.significance import compare
    from npda.io.progress import SHORT, stage

    metrics = [name.value for name in dict.fromkeys(metric)]
    stores = [Datastore.open(path) for path in store or []]
    with stage("scoring and resampling", shows_progress(quiet, verbose, as_json), SHORT):
        scores = [score(name, system, truth) for name in metrics]
        comparisons = compare(system, other, truth, metrics, samples, seed) if other is not None else []
        known = StoreText.of(*stores) if stores else None
        systems = [system, *([other] if other is not None else [])] if {"bleu", "chrf"} & {*metrics} else []
        faults = [count_faults(texts, truth, known) for texts in systems]
        used = [
            _used(listed, sources, texts, truth, metrics)
            for texts in ([system, *([other] if other is not None else [])] if listed else [])
        ]
    if as_json:
        inputs = {"hypotheses": hypotheses, "references": references, "baseline": baseline}
        record = {**inputs, "sentences": len(truth), **_record(scores, comparisons)}
        if faults:
            lines = {name: [n + 1 for n in places] for name, places in find_faults(system, truth, known).items()}
            baseline_faults = faults[1].record() if len(faults) > 1 else None
            record |= {"faults": faults[0].record(), "baseline_faults": baseline_faults, "fault_lines": lines}
        if used:
            record |= {"terms": used[0], "baseline_terms": used[1] if len(used) > 1 else None}
        print(json.dumps(record, ensure_ascii=False))
        return
    if comparisons:
        _print_comparisons(comparisons, samples)
    else:
        _print_scores(scores)
    if faults:
        _print_faults(faults)
    if used:
        _print_terms(used)


def _terms(paths: Sequence[Path]) -> list[Term]:
    from npda.corpus.terms import read_terms
    from npda.terms.record import TermFolder

    found = {}
    for path in paths:
        found.update({term.key: term for term in (TermFolder(path).terms() if path.is_dir() else read_terms(path))})
    return list(found.values())


def _sources(references: str) -> list[str]:
    """What was said, where terms are looked up."""
    if not references.endswith((".tsv", ".tsv.gz")):
        raise InputError(f"{references} does not say what was said: --terms needs a .tsv with the column src_text.")
    return _sentences(references, "src_text")


def _used(
    terms: Sequence[Term], sources: Sequence[str], texts: Sequence[str], truth: Sequence[str], metrics: Sequence[str]
) -> dict[str, object]:
    """How many terms are used, and the scores of the sentences that hold none."""
    from npda.evaluation.scores import score
    from npda.terms.accuracy import term_accuracy

    found = term_accuracy(terms, sources, texts)
    others = sorted({*range(len(texts))} - {*found.holding})
    scores = [score(name, [texts[n] for n in others], [truth[n] for n in others]) for name in metrics if others]
    return {
        "said": found.said,
        "exact": found.exact,
        "fuzzy": found.fuzzy,
        "by_term": {term: {"said": a, "exact": b, "fuzzy": c} for term, (a, b, c) in found.by_term.items()},
        "sentences_without": len(others),
        "scores_without": {each.name: each.value for each in scores},
    }


def _sentences(path: str, column: str) -> list[str]:
    """The lines of a text file or of standard input, or one column of a TSV."""
    from npda.corpus.manifest import column_places, split_row
    from npda.corpus.pairs import COLUMNS, read_pairs
    from npda.io.files import read_lines

    if path == "-":
        return _standard_input()
    lines = read_lines(path)
    if not path.endswith((".tsv", ".tsv.gz")):
        return lines
    header = lines[0].split("\t") if lines else []
    if header == ["id", "start", "end", "text"]:  # made by npda translate -f tsv
        column = "text"
    if len(header) == 2 and not set(header) & set(COLUMNS) and column in ("src_text", "tgt_text"):
        return [getattr(pair, column) for pair in read_pairs(path)]
    place = column_places(Path(path), header, [column], [column])[column]
    return [split_row(Path(path), number, line, len(header))[place] for number, line in enumerate(lines[1:], 2)]


def _standard_input() -> list[str]:
    content = typer.get_binary_stream("stdin").read()
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"Standard input, line {line}, is not UTF-8; convert it first.") from None
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _check_aligned(path: str, system: Sequence[str], references: str, truth: Sequence[str]) -> None:
    if len(system) != len(truth):
        raise InputError(
            f"{'Standard input' if path == '-' else path} has {len(system)} sentences but {references} has "
            f"{len(truth)}; sentence n of one must belong to sentence n of the other."
        )


def _record(scores: Sequence[Score], comparisons: Sequence[Comparison]) -> dict[str, list]:
    return {
        "scores": [asdict(score) for score in scores],
        "comparisons": [
            {
                **asdict(c),
                "delta": c.delta,
                "better": c.better,
                "significant": c.significant,
                "verdict": str(c),
            }
            for c in comparisons
        ],
    }


def _print_scores(scores: Sequence[Score]) -> None:
    from rich.table import Table

    table = Table("metric", "score", "details")
    for score in scores:
        table.add_row(score.name, f"{score.value:.2f}", score.verbose)
    _print(table, *(f"{score.name}|{score.signature}" for score in scores))


def _print_comparisons(comparisons: Sequence[Comparison], samples: int) -> None:
    from rich.table import Table

    table = Table("metric", "score ± 95 % CI", "baseline ± 95 % CI", "Δ", "p")
    for c in comparisons:
        table.add_row(
            c.metric,
            f"{c.value:.2f} ± {c.ci:.2f}",
            f"{c.baseline_value:.2f} ± {c.baseline_ci:.2f}",
            f"{c.delta:+.2f}",
            f"{c.p_value:.4f}",
        )
    test = f"Paired bootstrap resampling, {samples} samples; significant means p < 0.05."
    _print(table, *map(str, comparisons), test, *(f"{c.metric}|{c.signature}" for c in comparisons))


def _print_faults(faults: Sequence[Faults]) -> None:
    from rich.table import Table

    table = Table("faults", "outputs", *(["baseline"] if len(faults) > 1 else []))
    table.add_row("length ratio", *(f"{found.length_ratio:.3f}" for found in faults))
    names = {
        "cut_short": "cut short",
        "empty": "empty",
        "looping": "looping",
        "copies": "copies",
        "invented": "invented",
    }
    for name, shown in names.items():
        counts = [getattr(found, name) for found in faults]
        if None not in counts:
            table.add_row(shown, *map(str, counts))
    _print(table)


def _print_terms(used: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    def share(found: dict[str, Any], how: str) -> str:
        return f"{100 * found[how] / found['said']:.1f} %" if found["said"] else "–"

    table = Table("terms", *("score", "baseline")[: len(used)])
    table.add_row("said", *(f"{found['said']}" for found in used))
    table.add_row("written as wanted", *(share(found, "exact") for found in used))
    table.add_row("… but for an ending", *(share(found, "fuzzy") for found in used))
    for name in used[0]["scores_without"]:
        row = (f"{found['scores_without'][name]:.2f}" for found in used)
        table.add_row(f"{name} of the {used[0]['sentences_without']} sentences without terms", *row)
    _print(table)


def _print(table, *lines: str) -> None:

    console = open_console()
    console.print(table)
    for line in lines:
        # As it is: a signature cut at the width of the terminal could not be copied.
        console.print(line, highlight=False, soft_wrap=True)
