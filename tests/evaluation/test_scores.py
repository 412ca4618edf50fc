"""Scores against hand-computed cases, brute force and sacreBLEU's own command line."""

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from jiwer import wer as jiwer_wer
from typer.testing import CliRunner

from npda.corpus.wording import normalize
from npda.evaluation.scores import METRICS, bleu, chrf, score, wer
from npda.evaluation.significance import Comparison, compare
from npda.io.errors import InputError
from npda.io.files import write_lines

WORDS = ("der", "die", "Präsident", "spricht", "über", "Öl", ",", ".", "Haushalt", "2009", "“Ja”", "geht’s")
SENTENCE = st.lists(st.sampled_from("abc"), max_size=8)


def corpus(sentences: int, seed: int) -> tuple[list[str], list[str], list[str]]:
    """References, a system that garbles one word in six, and a baseline that garbles one in four."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(3, 14))) for _ in range(sentences)]

    def garble(sentence: str, rate: float) -> str:
        kept = (draw.choice([w, "", "falsch", w + " noch"]) if draw.random() < rate else w for w in sentence.split())
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
@given(st.lists(st.tuples(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc"), min_size=1)), min_size=1))
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
        edits = sum(edit_distance(normalize(system[i]).split(), normalize(references[i]).split()) for i in sentences)
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
    with pytest.raises(InputError, match="Sentence 2 of the references is empty"):
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


@pytest.fixture
def app() -> typer.Typer:
    from npda.cli.evaluate import evaluate

    app = typer.Typer(rich_markup_mode="markdown")
    app.command()(evaluate)
    return app


@pytest.fixture
def files(tmp_path, monkeypatch) -> tuple[list[str], list[str], list[str]]:
    """References as a manifest and gzipped text, hypotheses as text, baseline as npda translate's TSV."""
    references, hypotheses, baseline = corpus(30, 2)
    monkeypatch.chdir(tmp_path)
    rows = [f"u{n}\ta.wav\t100\t{t}\tword number{n}" for n, t in enumerate(references)]
    write_lines("test.tsv", ["id\taudio\tn_frames\ttgt_text\tsrc_text", *rows])
    write_lines("test.txt.gz", references)
    write_lines("pairs.tsv", [f"source\t{text}" for text in references])
    write_lines("hyp.txt", hypotheses)
    write_lines("base.tsv", ["id\tstart\tend\ttext", *(f"a.wav\t0\t9\t{text}" for text in baseline)])
    return references, hypotheses, baseline


def run(app: typer.Typer, command: str, input: bytes | None = None) -> str:
    result = CliRunner().invoke(app, command.split(), input=input)
    if result.exception:
        raise result.exception
    return result.stdout


@pytest.mark.parametrize("reference_file", ["test.tsv", "test.txt.gz", "pairs.tsv"])
def test_evaluate_reads_text_and_tables(app, files, reference_file: str):
    references, hypotheses, _ = files
    output = json.loads(run(app, f"hyp.txt {reference_file} --metric bleu --metric chrf --metric wer --json"))
    expected = [bleu(hypotheses, references), chrf(hypotheses, references), wer(hypotheses, references)]
    assert output["scores"] == json.loads(json.dumps([asdict(score) for score in expected]))
    assert (output["sentences"], output["baseline"], output["comparisons"]) == (30, None, [])


def test_evaluate_compares_with_a_baseline(app, files):
    references, hypotheses, baseline = files
    output = json.loads(run(app, "hyp.txt test.tsv --baseline base.tsv --json --samples 200 --seed 3"))
    expected = compare(hypotheses, baseline, references, samples=200, seed=3)
    for printed, comparison in zip(output["comparisons"], expected, strict=True):
        assert {key: printed[key] for key in asdict(comparison)} == asdict(comparison)
        assert printed["delta"] == comparison.delta
        assert printed["verdict"] == str(comparison)


def test_evaluate_prints_a_table_verdicts_and_whole_signatures(app, files):
    references, hypotheses, baseline = files
    output = run(app, "hyp.txt test.tsv --baseline base.tsv --metric wer --metric bleu --samples 100")
    for comparison in compare(hypotheses, baseline, references, ["wer", "bleu"], samples=100):
        assert f" {comparison.delta:+.2f} " in output
        assert f"{comparison.value:.2f} ± {comparison.ci:.2f}" in output
        assert f"{comparison}\n" in output
        assert f"{comparison.metric}|{comparison.signature}\n" in output
    alone = run(app, "hyp.txt test.tsv")
    assert f" {bleu(hypotheses, references).value:.2f} " in alone
    assert f"chrF2|{chrf(hypotheses, references).signature}\n" in alone


def test_evaluate_reads_standard_input_and_another_column(app, files):
    spoken = "".join(f"Word number{n}!\r\n" for n in range(30))
    output = json.loads(run(app, "- test.tsv --column src_text --metric wer --json", input=spoken.encode()))
    assert output["scores"][0]["value"] == 0
    with pytest.raises(InputError, match="line 2, is not UTF-8"):
        run(app, "- test.tsv", input=b"a\n\xff\n")
    with pytest.raises(InputError, match="one file only"):
        run(app, "- test.tsv --baseline -")


def test_evaluate_names_the_files_at_fault(app, files):
    write_lines("short.txt", ["a"] * 29)
    with pytest.raises(InputError, match=r"short.txt has 29 sentences but test.tsv has 30;"):
        run(app, "short.txt test.tsv")
    with pytest.raises(InputError, match=r"short.txt has 29 sentences but test.tsv has 30;"):
        run(app, "hyp.txt test.tsv --baseline short.txt")
    with pytest.raises(InputError, match=r"test.tsv, line 1: the column text is missing; "):
        run(app, "hyp.txt test.tsv --column text")
    with pytest.raises(InputError, match=r"none.txt cannot be read"):
        run(app, "none.txt test.tsv")


def test_evaluate_offers_every_metric_and_its_help_costs_nothing():
    code = (
        "import sys; from npda.cli.evaluate import Metric; "
        "assert not {'numpy', 'sacrebleu', 'jiwer', 'torch'} & set(sys.modules); "
        "from npda.evaluation.scores import METRICS; assert tuple(Metric) == METRICS"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
