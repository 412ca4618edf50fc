"""Scores of translations and transcripts, each with its signature, and whether two systems really differ."""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from npda.errors import InputError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

METRICS = ("bleu", "chrf", "wer", "wer-raw")
LEVEL = 0.05  # a p-value below it is called significant


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


@dataclass(frozen=True)
class Comparison:
    """A system beside a baseline, by paired bootstrap resampling (Koehn 2004)."""

    metric: str
    value: float
    baseline_value: float
    p_value: float
    mean: float  # over the resamples
    ci: float  # half the width of the 95 % interval around the mean
    baseline_mean: float
    baseline_ci: float
    signature: str
    higher_is_better: bool = True

    @property
    def delta(self) -> float:
        return self.value - self.baseline_value

    @property
    def better(self) -> bool:
        return self.delta > 0 if self.higher_is_better else self.delta < 0

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely reason for the difference; no difference is never significant.

        The second condition is needed: sacreBLEU gives a system compared with itself the smallest p-value.
        """
        return self.p_value < LEVEL and self.delta != 0

    def __str__(self) -> str:
        """The verdict in words."""
        if self.delta == 0:
            return f"{self.metric}: no difference from the baseline"
        direction = "better" if self.better else "worse"
        if self.significant:
            return f"{self.metric}: significantly {direction} than the baseline (p = {self.p_value:.4f})"
        return f"{self.metric}: {direction} than the baseline, but not significantly (p = {self.p_value:.4f})"


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """sacreBLEU: cased, 13a tokens, one reference a sentence."""
    _check(hypotheses, references)
    metric = _sacrebleu_metric("bleu", references)
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
    _check(hypotheses, references)
    metric = _sacrebleu_metric("chrf", references)
    score = metric.corpus_score(hypotheses, None)
    return Score(score.name, score.score, str(metric.get_signature()))


def wer(hypotheses: Sequence[str], references: Sequence[str], normalized: bool = True) -> Score:
    """Word error rate of the corpus: edits over reference words, 100 times; it can exceed 100.

    Normalised as by `normalize`, or on the raw words between spaces. An empty hypothesis counts as
    deletions; an empty reference is refused, as it has no rate.
    """
    _check(hypotheses, references)
    errors = _word_errors(hypotheses, references, normalized)
    substitutions, deletions, insertions, hypothesis_words, words = (int(n) for n in errors.sum(axis=0))
    return Score(
        name=_wer_name(normalized),
        value=100 * (substitutions + deletions + insertions) / words,
        signature=_wer_signature(normalized),
        verbose=f"(sub = {substitutions} del = {deletions} ins = {insertions} "
        f"hyp_len = {hypothesis_words} ref_len = {words})",
        hypothesis_length=hypothesis_words,
        reference_length=words,
    )


def normalize(text: str) -> str:
    """Lower case without punctuation: each mark becomes a space, an apostrophe inside a word stays."""
    text = unicodedata.normalize("NFC", text).lower().replace("’", "'")
    text = re.sub(r"(?<!\w)'|'(?!\w)", " ", text)
    kept = (" " if unicodedata.category(c).startswith("P") and c != "'" else c for c in text)
    return " ".join("".join(kept).split())


def score(metric: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """The score called `metric`, one of `METRICS`."""
    match metric:
        case "bleu":
            return bleu(hypotheses, references)
        case "chrf":
            return chrf(hypotheses, references)
        case "wer" | "wer-raw":
            return wer(hypotheses, references, normalized=metric == "wer")
    raise _unknown(metric)


def compare(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    samples: int = 1000,
    seed: int = 12345,
) -> list[Comparison]:
    """Compare two systems by paired bootstrap resampling (Koehn 2004), in the order of `metrics`.

    BLEU and chrF are sacreBLEU's own test, so that its command line gives the same numbers; WER is put
    through the same test on the same resamples. The statistic is that of the Moses script which sacreBLEU
    follows: how often the centred |difference| of a resample exceeds the observed one. In effect it tests
    one side: of two equally good systems, p < 0.05 calls one better in about one case of ten.
    """
    _check(hypotheses, references)
    _check(baseline, references, who="baseline")
    if samples < 1 or seed < 1:
        # sacreBLEU takes a seed of 0 for none, and 0 samples for its default.
        raise InputError(
            f"The bootstrap needs at least 1 sample and a seed above 0, not {samples} and {seed}."
        )
    for metric in metrics:
        if metric not in METRICS:
            raise _unknown(metric)
    return [
        _compare_wer(hypotheses, baseline, references, metric == "wer", samples, seed)
        if metric.startswith("wer")
        else _compare_sacrebleu(metric, hypotheses, baseline, references, samples, seed)
        for metric in metrics
    ]


def _compare_sacrebleu(
    name: str,
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    samples: int,
    seed: int,
) -> Comparison:
    from sacrebleu.significance import PairedTest

    systems = [("baseline", baseline), ("system", hypotheses)]
    with _sacrebleu_seed(seed):
        test = PairedTest(
            systems, {name: _sacrebleu_metric(name, references)}, None, test_type="bs", n_samples=samples
        )
        signatures, results = test()
    ((title, signature),) = signatures.items()
    old, new = cast("list[Any]", results[title])
    return Comparison(
        metric=title,
        value=new.score,
        baseline_value=old.score,
        p_value=new.p_value,
        mean=float(new.mean),
        ci=float(new.ci),
        baseline_mean=float(old.mean),
        baseline_ci=float(old.ci),
        signature=str(signature),
    )


def _compare_wer(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    normalized: bool,
    samples: int,
    seed: int,
) -> Comparison:
    new = _edits_and_words(hypotheses, references, normalized)
    old = _edits_and_words(baseline, references, normalized)
    draws = np.random.default_rng(seed).choice(len(new), size=(samples, len(new)), replace=True)
    value, baseline_value = float(_rate(new.sum(axis=0))), float(_rate(old.sum(axis=0)))
    values, baseline_values = (_rate(_resample(counts, draws)) for counts in (new, old))

    differences = np.abs(values - baseline_values)
    exceeding = np.sum(differences - differences.mean() > abs(value - baseline_value))
    mean, ci = _interval(values)
    baseline_mean, baseline_ci = _interval(baseline_values)
    return Comparison(
        metric=_wer_name(normalized),
        value=value,
        baseline_value=baseline_value,
        p_value=float((exceeding + 1) / (samples + 1)),
        mean=mean,
        ci=ci,
        baseline_mean=baseline_mean,
        baseline_ci=baseline_ci,
        signature=_wer_signature(normalized, f"bs:{samples}", f"seed:{seed}"),
        higher_is_better=False,
    )


def _resample(counts: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Sums over the drawn sentences: counts [sentences, 2], draws [samples, sentences] → [samples, 2]."""
    return np.stack([column[draws].sum(axis=1) for column in counts.T], axis=1)


def _rate(counts: np.ndarray) -> np.ndarray:
    """Edits over words in percent: [..., 2] → [...]; a resample may hold no word at all."""
    return 100 * counts[..., 0] / np.maximum(counts[..., 1], 1)


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Mean and half the width of the 95 % interval, cutting a fortieth at both ends as sacreBLEU does."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return float(ordered.mean()), float(ordered[len(ordered) - cut - 1] - ordered[cut]) / 2


def _edits_and_words(hypotheses: Sequence[str], references: Sequence[str], normalized: bool) -> np.ndarray:
    """[sentences, 2] int64: word edits, and words of the reference."""
    errors = _word_errors(hypotheses, references, normalized)
    return np.stack([errors[:, :3].sum(axis=1), errors[:, 4]], axis=1)


def _word_errors(hypotheses: Sequence[str], references: Sequence[str], normalized: bool) -> np.ndarray:
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


def _wer_name(normalized: bool) -> str:
    return "WER" if normalized else "rawWER"


def _wer_signature(normalized: bool, *test: str) -> str:
    """In the manner of sacreBLEU: `nrefs:1|case:lc|punct:no|unicode:nfc|jiwer:4.0.0`."""
    words = ["case:lc", "punct:no", "unicode:nfc"] if normalized else ["case:mixed", "punct:yes"]
    return "|".join(["nrefs:1", *test, *words, f"jiwer:{version('jiwer')}"])


def _sacrebleu_metric(name: str, references: Sequence[str]) -> "Metric":
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    metric = BLEU if name == "bleu" else CHRF
    return metric(references=[references])


@contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """sacreBLEU takes the seed of its test from the environment only; leave that as it was."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def _check(hypotheses: Sequence[str], references: Sequence[str], who: str = "hypotheses") -> None:
    if len(hypotheses) != len(references):
        raise InputError(
            f"There are {len(hypotheses)} sentences in the {who} but {len(references)} in the references; "
            "they must be aligned line by line."
        )
    if not any(reference.strip() for reference in references):
        raise InputError("The references hold no text; check the file and the column.")


def _unknown(metric: str) -> InputError:
    return InputError(f"There is no metric {metric!r}; choose from {', '.join(METRICS)}.")
