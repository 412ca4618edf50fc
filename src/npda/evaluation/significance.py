"""Whether two systems really differ: paired bootstrap resampling (Koehn 2004)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from npda.evaluation.scores import (
    METRICS,
    check,
    sacrebleu_metric,
    unknown,
    wer_name,
    wer_signature,
    word_errors,
)
from npda.io.errors import InputError

LEVEL = 0.05  # a p-value below it is called significant


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
    check(hypotheses, references)
    check(baseline, references, who="baseline")
    if samples < 1 or seed < 1:
        # sacreBLEU takes a seed of 0 for none, and 0 samples for its default.
        raise InputError(f"The bootstrap needs at least 1 sample and a seed above 0, not {samples} and {seed}.")
    for metric in metrics:
        if metric not in METRICS:
            raise unknown(metric)
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
        test = PairedTest(systems, {name: sacrebleu_metric(name, references)}, None, test_type="bs", n_samples=samples)
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
        metric=wer_name(normalized),
        value=value,
        baseline_value=baseline_value,
        p_value=float((exceeding + 1) / (samples + 1)),
        mean=mean,
        ci=ci,
        baseline_mean=baseline_mean,
        baseline_ci=baseline_ci,
        signature=wer_signature(normalized, f"bs:{samples}", f"seed:{seed}"),
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
    errors = word_errors(hypotheses, references, normalized)
    return np.stack([errors[:, :3].sum(axis=1), errors[:, 4]], axis=1)


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
