"""Scores against hand-computed cases, brute force and sacreBLEU's own command line."""

import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jiwer import wer as jiwer_wer

from npda.errors import InputError
from npda.evaluation.scores import METRICS, Comparison, bleu, chrf, compare, normalize, score, wer

WORDS = ("der", "die", "Präsident", "spricht", "über", "Öl", ",", ".", "Haushalt", "2009", "“Ja”", "geht’s")
SENTENCE = st.lists(st.sampled_from("abc"), max_size=8)


def corpus(sentences: int, seed: int) -> tuple[list[str], list[str], list[str]]:
    """References, a system that garbles one word in six, and a baseline that garbles one in four."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(3, 14))) for _ in range(sentences)]

    def garble(sentence: str, rate: float) -> str:
        kept = (
            draw.choice([w, "", "falsch", w + " noch"]) if draw.random() < rate else w
            for w in sentence.split()
        )
        return " ".join(" ".join(kept).split())

    return references, [garble(r, 1 / 6) for r in references], [garble(r, 1 / 4) for r in references]


def edit_distance(a: list[str], b: list[str]) -> int:
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0], table[0, :] = range(len(a) + 1), range(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            change = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = min(change, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return int(table[-1, -1])


def test_bleu_of_a_hand_counted_sentence():
    result = bleu(["the cat sat on the mat"], ["the cat sat on the red mat"])
    precisions = [6 / 6, 4 / 5, 3 / 4, 2 / 3]
    penalty = math.exp(1 - 7 / 6)
    assert result.precisions == pytest.approx([100 * p for p in precisions])
    assert result.brevity_penalty == pytest.approx(penalty)
    assert (result.hypothesis_length, result.reference_length) == (6, 7)
    assert result.value == pytest.approx(100 * penalty * math.prod(precisions) ** 0.25)
    assert result.verbose == "100.0/80.0/75.0/66.7 (BP = 0.846 ratio = 0.857 hyp_len = 6 ref_len = 7)"
    assert result.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


def test_bleu_and_chrf_are_cased():
    assert bleu(["a b c d e"], ["a b c d e"]).value == pytest.approx(100)
    assert bleu(["A b c d e"], ["a b c d e"]).value < 100
    assert chrf(["A b c d e"], ["a b c d e"]).value < 100


def test_chrf_of_a_hand_counted_sentence():
    # "abc" against "abd": 2 of 3 characters, 1 of 2 bigrams, 0 of 1 trigram, precision equal to recall.
    result = chrf(["abc"], ["abd"])
    assert result.value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)
    assert (result.name, result.signature.split("|version")[0]) == (
        "chrF2",
        "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no",
    )


def test_wer_counts_each_kind_of_error():
    result = wer(["a x c", "", "a b extra"], ["a b c d", "one two", "a b"])
    assert result.value == pytest.approx(100 * (1 + 1 + 2 + 1) / 8)
    assert result.verbose == "(sub = 1 del = 3 ins = 1 hyp_len = 6 ref_len = 8)"


def test_wer_normalises_unless_raw():
    hypotheses, references = ["hello it's a well known fact"], ["“Hello,” it’s a well-known fact!"]
    assert wer(hypotheses, references).value == 0
    assert "|case:lc|punct:no|" in wer(hypotheses, references).signature
    # Raw: “Hello,” it’s and fact! are wrong, well-known is one word for two.
    raw = wer(hypotheses, references, normalized=False)
    assert raw.value == pytest.approx(100 * 5 / 5)
    assert (raw.name, "|case:mixed|punct:yes|" in raw.signature) == ("rawWER", True)


def test_normalize_keeps_apostrophes_inside_words_only():
    assert normalize("L’homme 'ne dit' rien… «non»") == "l'homme ne dit rien non"
    assert normalize("U\u0308ber 50 % – O.K.") == "über 50 o k"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc"), min_size=1)), min_size=1
    )
)
def test_wer_is_edits_over_words(pairs: list[tuple[list[str], list[str]]]):
    edits = sum(edit_distance(hypothesis, reference) for hypothesis, reference in pairs)
    words = sum(len(reference) for _, reference in pairs)
    texts = [(" ".join(hypothesis), " ".join(reference)) for hypothesis, reference in pairs]
    hypotheses, references = [h for h, _ in texts], [r for _, r in texts]
    assert wer(hypotheses, references).value == pytest.approx(100 * edits / words)
    assert wer(hypotheses, references).value == pytest.approx(100 * jiwer_wer(references, hypotheses))


@pytest.mark.parametrize("seed", [12345, 7])
def test_compare_agrees_with_the_command_line_of_sacrebleu(tmp_path, seed: int):
    references, hypotheses, baseline = corpus(60, seed)
    for name, lines in [("ref", references), ("hyp", hypotheses), ("base", baseline)]:
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    # Not as JSON, which fails on the float32 means of chrF and leaves the signatures out.
    options = "-m bleu chrf --paired-bs --paired-bs-n 1000 --no-color --format text --width 9"
    table = subprocess.run(
        [sys.executable, "-m", "sacrebleu", "ref", "-i", "base", "hyp", *options.split()],
        cwd=tmp_path,
        env={**os.environ, "SACREBLEU_SEED": str(seed)},
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    titles, baselines, systems, p_values = rows

    comparisons = compare(hypotheses, baseline, references, samples=1000, seed=seed)
    assert titles[1:] == [f"{c.metric} (μ ± 95% CI)" for c in comparisons]
    assert systems[1:] == [f"{c.value:.9f} ({c.mean:.9f} ± {c.ci:.9f})" for c in comparisons]
    assert baselines[1:] == [
        f"{c.baseline_value:.9f} ({c.baseline_mean:.9f} ± {c.baseline_ci:.9f})" for c in comparisons
    ]
    assert [p.rstrip("*") for p in p_values[1:]] == [f"(p = {c.p_value:.4f})" for c in comparisons]
    assert [p.endswith("*") for p in p_values[1:]] == [c.significant for c in comparisons]
    assert [f" - {c.metric:<10} {c.signature}" for c in comparisons] == table.rstrip().splitlines()[-2:]
    assert all(c.delta == c.value - c.baseline_value for c in comparisons)


def test_wer_significance_is_that_of_a_plain_loop():
    references, hypotheses, baseline = corpus(40, 3)
    (ours,) = compare(hypotheses, baseline, references, ["wer"], samples=200, seed=5)

    def rate(system: list[str], sentences: list[int]) -> float:
        edits = sum(
            edit_distance(normalize(system[i]).split(), normalize(references[i]).split()) for i in sentences
        )
        return 100 * edits / sum(len(normalize(references[i]).split()) for i in sentences)

    everything = list(range(len(references)))
    draw = np.random.default_rng(5)
    drawn = [draw.choice(len(references), size=len(references)).tolist() for _ in range(200)]
    new, old = [rate(hypotheses, d) for d in drawn], [rate(baseline, d) for d in drawn]
    differences = [abs(a - b) for a, b in zip(new, old, strict=True)]
    mean = sum(differences) / 200
    observed = abs(rate(hypotheses, everything) - rate(baseline, everything))
    assert ours.p_value == (sum(d - mean > observed for d in differences) + 1) / 201
    assert ours.value == pytest.approx(rate(hypotheses, everything))
    assert ours.baseline_value == pytest.approx(rate(baseline, everything))
    assert (ours.mean, ours.baseline_mean) == pytest.approx((np.mean(new), np.mean(old)))
    assert ours.ci == pytest.approx((sorted(new)[194] - sorted(new)[5]) / 2)
    assert ours.signature.startswith("nrefs:1|bs:200|seed:5|case:lc|")


def test_lower_wer_is_better():
    references, hypotheses, baseline = corpus(200, 1)
    by_bleu, by_wer = compare(hypotheses, baseline, references, ["bleu", "wer"], samples=100)
    assert by_bleu.delta > 0 > by_wer.delta
    assert by_bleu.better
    assert by_wer.better
    assert by_wer.significant
    assert str(by_wer) == f"WER: significantly better than the baseline (p = {by_wer.p_value:.4f})"


def test_a_system_does_not_differ_from_itself():
    references, hypotheses, _ = corpus(20, 1)
    for comparison in compare(hypotheses, hypotheses, references, METRICS, samples=100):
        assert comparison.p_value < 0.05  # as sacreBLEU has it, which is why it does not decide alone
        assert not comparison.significant
        assert str(comparison).endswith("no difference from the baseline")


def test_a_small_difference_is_not_called_significant():
    comparison = Comparison("BLEU", 20.0, 20.4, 0.3, 20.0, 1.0, 20.4, 1.0, "")
    assert not comparison.significant
    assert str(comparison) == "BLEU: worse than the baseline, but not significantly (p = 0.3000)"


@pytest.mark.parametrize("before", [None, "99"])
def test_compare_leaves_no_trace(monkeypatch, before: str | None):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    references, hypotheses, baseline = corpus(10, 1)
    state, environment = np.random.get_state()[1].tolist(), dict(os.environ)  # type: ignore[index]
    first = compare(hypotheses, baseline, references, METRICS, samples=50)
    assert dict(os.environ) == environment
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index]
    assert compare(hypotheses, baseline, references, METRICS, samples=50) == first


@pytest.mark.parametrize("metric", METRICS)
def test_different_lengths_are_refused_with_both_counts(metric: str):
    with pytest.raises(InputError, match=r"2 sentences in the hypotheses but 3 in the references"):
        score(metric, ["a", "b"], ["a", "b", "c"])
    with pytest.raises(InputError, match=r"1 sentences in the baseline but 2 in the references"):
        compare(["a", "b"], ["a"], ["a", "b"], [metric])
    with pytest.raises(InputError, match="no text"):
        score(metric, [], [])


def test_an_empty_reference_has_no_wer():
    with pytest.raises(InputError, match="Line 2 of the references is empty"):
        wer(["a", "b"], ["a", " "])
    with pytest.raises(InputError, match="punctuation only"):
        wer(["a"], ["?!"])
    assert wer(["a", "b"], ["a", "…"]).value == 100  # one insertion for one word


@pytest.mark.parametrize(("samples", "seed"), [(0, 1), (10, 0)])
def test_settings_that_sacrebleu_would_take_for_others_are_refused(samples: int, seed: int):
    with pytest.raises(InputError, match="above 0"):
        compare(["a"], ["b"], ["a"], samples=samples, seed=seed)


def test_an_unknown_metric_is_refused():
    with pytest.raises(InputError, match="no metric 'ter'; choose from bleu, chrf, wer, wer-raw"):
        compare(["a"], ["b"], ["a"], ["ter"])
    with pytest.raises(InputError, match="no metric 'ter'"):
        score("ter", ["a"], ["a"])
