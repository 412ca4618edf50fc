"""Scores of translations and transcripts, each with its signature."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from npda.corpus.wording import normalize
from npda.io.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "wer", "wer-raw")


@dataclass(frozen=True)
class Score:
    """A corpus score in percent; `signature` says how it was computed, so that others can repeat it."""

    name: str
    value: float
    signature: str
    verbose: str = ""  # BLEU: precisions, brevity penalty, lengths; WER: kinds of errors
    precisions: tuple[float, ...] = ()  # BLEU only: 1- to 4-gram, in percent
    brevity_penalty: float | None = None  # BLEU only
    hypothesis_length: int | None = None  # words (BLEU: 13a tokens)
    reference_length: int | None = None

    def __str__(self) -> str:
        return f"{self.name}|{self.signature} = {self.value:.2f} {self.verbose}".rstrip()


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """sacreBLEU: cased, 13a tokens, one reference a sentence."""
    check(hypotheses, references)
    metric = sacrebleu_metric("bleu", references)
    score = metric.corpus_score(hypotheses, None)
    precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
    ratio = score.sys_len / score.ref_len if score.ref_len else 0.0
    return Score(
        name=score.name,
        value=score.score,
        signature=str(metric.get_signature()),
        verbose=f"{precisions} (BP = {score.bp:.3f} ratio = {ratio:.3f} "
        f"hyp_len = {score.sys_len} ref_len = {score.ref_len})",
        precisions=tuple(score.precisions),
        brevity_penalty=score.bp,
        hypothesis_length=score.sys_len,
        reference_length=score.ref_len,
    )


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2 as sacreBLEU defines it: character 1- to 6-grams, cased, without spaces."""
    check(hypotheses, references)
    metric = sacrebleu_metric("chrf", references)
    score = metric.corpus_score(hypotheses, None)
    return Score(score.name, score.score, str(metric.get_signature()))


def wer(hypotheses: Sequence[str], references: Sequence[str], normalized: bool = True) -> Score:
    """Word error rate of the corpus: edits over reference words, 100 times; it can exceed 100.

    Normalised as by `normalize`, or on the raw words between spaces. An empty hypothesis counts as
    deletions; an empty reference is refused, as it has no rate.
    """
    check(hypotheses, references)
    errors = word_errors(hypotheses, references, normalized)
    substitutions, deletions, insertions, hypothesis_words, words = (int(n) for n in errors.sum(axis=0))
    return Score(
        name=wer_name(normalized),
        value=100 * (substitutions + deletions + insertions) / words,
        signature=wer_signature(normalized),
        verbose=f"(sub = {substitutions} del = {deletions} ins = {insertions} "
        f"hyp_len = {hypothesis_words} ref_len = {words})",
        hypothesis_length=hypothesis_words,
        reference_length=words,
    )


def score(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The score called `metric`, one of `METRICS`."""
    match metric:
        case "bleu":
            return bleu(hypotheses, references)
        case "chrf":
            return chrf(hypotheses, references)
        case "wer" | "wer-raw":
            return wer(hypotheses, references, normalized=metric == "wer")
    raise unknown(metric)


def word_errors(hypotheses: Sequence[str], references: Sequence[str], normalized: bool) -> np.ndarray:
    """[sentences, 5] int64: substitutions, deletions, insertions, words of hypothesis and reference."""
    import jiwer

    for number, reference in enumerate(references, 1):
        if not reference.strip():
            raise InputError(
                f"Sentence {number} of the references is empty, and so has no word error rate; "
                "fill it in or take the sentence out of hypotheses and references."
            )
    prepare = normalize if normalized else lambda text: " ".join(text.split())
    # A reference of punctuation only may be empty by now; what is heard there counts as inserted.
    output = jiwer.process_words([prepare(t) for t in references], [prepare(t) for t in hypotheses])
    errors = np.zeros((len(references), 5), dtype=np.int64)
    for row, chunks, hypothesis, reference in zip(
        errors, output.alignments, output.hypotheses, output.references, strict=True
    ):
        row[3:] = len(hypothesis), len(reference)
        for chunk in chunks:
            if chunk.type == "insert":
                row[2] += chunk.hyp_end_idx - chunk.hyp_start_idx
            elif chunk.type != "equal":
                row[0 if chunk.type == "substitute" else 1] += chunk.ref_end_idx - chunk.ref_start_idx
    if not errors[:, 4].any():
        raise InputError("The references hold punctuation only, which has no word error rate.")
    return errors


def wer_name(normalized: bool) -> str:
    return "WER" if normalized else "rawWER"


def wer_signature(normalized: bool, *test: str) -> str:
    """In the manner of sacreBLEU: `nrefs:1|case:lc|punct:no|unicode:nfc|jiwer:4.0.0`."""
    words = ["case:lc", "punct:no", "unicode:nfc"] if normalized else ["case:mixed", "punct:yes"]
    return "|".join(["nrefs:1", *test, *words, f"jiwer:{version('jiwer')}"])


def sacrebleu_metric(name: str, references: Sequence[str]) -> "Metric":
    return _metric(name, tuple(references))


@lru_cache(maxsize=2)  # tuning scores many translations against the same references
def _metric(name: str, references: tuple[str, ...]) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metric = BLEU if name == "bleu" else CHRF
    return metric(references=[list(references)])


def check(hypotheses: Sequence[str], references: Sequence[str], who: str = "hypotheses") -> None:
    """Refuse what is not aligned, and references without text."""
    if len(hypotheses) != len(references):
        raise InputError(
            f"There are {len(hypotheses)} sentences in the {who} but {len(references)} in the references; "
            "they must be aligned line by line."
        )
    if not any(reference.strip() for reference in references):
        raise InputError("The references hold no text; check the file and the column.")


def unknown(metric: str) -> InputError:
    """What to say of a metric that does not exist."""
    return InputError(f"There is no metric {metric!r}; choose from {', '.join(METRICS)}.")
