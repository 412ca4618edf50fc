"""The tests by every metric side by side, each with a significance test of its own."""

from __future__ import annotations

from collections.abc import Iterator

from npda.corpus.wording import normalize
from npda.evaluation.scores import bleu, chrf, wer
from npda.report.table import Cell, Table, not_done, number, plain
from npda.reproduce.recipe.recipe import Talks
from npda.reproduce.results import BASE, Group, Place, Results
from npda.reproduce.tables.score_cells import Scores

_SCORES = {"bleu": bleu, "chrf": chrf, "wer": wer}
_NAMES = {"bleu": "BLEU", "chrf": "chrF", "wer": "WER"}


def metrics(results: Results) -> Iterator[Table]:
    """BLEU and chrF of every system against the base; how alike text and speech are; what it costs."""
    for group in results.groups:
        columns = ("language", "system", *_columns(_scores(results, group)), "plain BLEU", "cosine", "seconds")
        labels = Scores(results, group).labels
        missing = [trial.translation for trial in group.trials.values() if not results.is_done(trial.translation)]
        rows = tuple(
            (plain(labels[place]), plain(system), *_cells(results, group, system, place))
            for place in group.places
            for system in group.systems
            if group.trial(system, place)
        )
        notes = (
            f"p: paired bootstrap against {BASE}. Plain BLEU: in lower case, without punctuation. Cosine: of the "
            f"decoder's states for speech and for text, where there is a text path. Seconds: processor time for the "
            f"whole test of {group.domain}.",
            *not_done(missing),
        )
        ends = f"{group.general}-{group.domain}{'-multilingual' if group.multilingual else ''}"
        title = f"All metrics on {group.domain}{', multilingual' if group.multilingual else ''}"
        yield Table("metrics", f"metrics-{ends}", title, columns, rows, notes)


def _scores(results: Results, group: Group) -> list[str]:
    """Of transcripts the word error rate too."""
    corpus = results.recipe.corpora[group.domain]
    written = isinstance(corpus, Talks) and corpus.transcribe
    return [metric for metric in _SCORES if metric != "wer" or written]


def _columns(scores: list[str]) -> Iterator[str]:
    for metric in scores:
        yield _NAMES[metric]
        yield "p" if metric == "bleu" else f"p of {_NAMES[metric]}"


def _cells(results: Results, group: Group, system: str, place: Place) -> Iterator[Cell]:
    trial, base = group.trial(system, place), group.trial(BASE, place)
    assert trial is not None
    translated = results.translated(trial, group.domain)
    for metric in _scores(results, group):
        yield number(_SCORES[metric](*translated).value if translated else None, ".2f")
        test = results.compare(trial, base, group.domain, metric) if base and system != BASE else None
        yield number(test.p_value, ".4f") if test else Cell("")
    yield number(bleu(*map(_plain, translated)).value if translated else None, ".2f")
    cosine = (results.result(trial.similarity) or {}).get("cosine")
    yield number(cosine, ".3f") if trial.similarity else Cell("")
    yield number(results.seconds(trial, group.domain), ".1f")


def _plain(texts: list[str]) -> list[str]:
    return [normalize(text) for text in texts]
