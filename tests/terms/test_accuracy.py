"""How many terms are written as wanted, counted by hand."""

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.cli import app
from npda.corpus.pairs import Pair, write_pairs
from npda.corpus.terms import Term
from npda.io.errors import InputError
from npda.io.files import write_lines
from npda.terms.accuracy import Accuracy, alike, distance, term_accuracy

TERMS = [
    Term(("Auto", "PKW"), "automobile"),
    Term(("Bestellung",), "purchase order"),
    Term(("Lehrer",), "instructor"),
    Term(("Lehrer",), "instructors", plural=True),
]


def test_every_term_that_was_said_counts_once():
    sources = ["Das Auto und der PKW.", "Meine Bestellung!", "Ich bestelle.", "Lehrer und Lehrer"]
    hypotheses = ["The automobile and the car.", "My purchased order!", "An automobile.", "Instructor and instructors"]
    expected = Accuracy(5, 3, 4, (0, 1, 3), {"Auto": (2, 1, 1), "Bestellung": (1, 0, 1), "Lehrer": (2, 2, 2)})
    assert term_accuracy(TERMS, sources, hypotheses) == expected


def test_a_term_that_is_written_more_often_than_said_counts_as_often_as_said():
    found = term_accuracy(TERMS, ["Auto"], ["Automobile, automobile, automobiles"])
    assert (found.said, found.exact, found.fuzzy) == (1, 1, 1)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("order", "order", True), ("order", "orders", True), ("Kommode", "Kommoden", True), ("car", "cat", False)],
)
def test_words_that_share_a_stem(a, b, expected):
    assert alike(a, b) is alike(b, a) is expected


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_the_fewest_edits(a, b):
    @cache
    def brute_force(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        same = brute_force(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(same, brute_force(i - 1, j) + 1, brute_force(i, j - 1) + 1)

    assert distance(a, b) == brute_force(len(a), len(b))


def test_evaluate_counts_terms_and_scores_the_rest(tmp_path, capsys):
    write_pairs(
        tmp_path / "ref.tsv",
        [
            Pair("Mein Auto.", "My automobile is red."),
            Pair("Ein Hund.", "A small dog barks."),
            Pair("Auto", "The automobile."),
        ],
    )
    write_lines(tmp_path / "new.txt", ["My automobile is red.", "A small dog barks.", "The car."])
    write_lines(tmp_path / "old.txt", ["My car is red.", "A small cat barks.", "The car."])
    (tmp_path / "terms.csv").write_text("Auto,automobile\n")
    given = [tmp_path / "new.txt", tmp_path / "ref.tsv", "--baseline", tmp_path / "old.txt"]
    given += ["--terms", tmp_path / "terms.csv", "--metric", "chrf"]
    run(*given, "--json")
    record = json.loads(capsys.readouterr().out)
    new, old = record["terms"], record["baseline_terms"]
    assert [(found["said"], found["exact"], found["fuzzy"]) for found in (new, old)] == [(2, 1, 1), (2, 0, 0)]
    assert new["sentences_without"] == 1
    assert new["scores_without"]["chrF2"] == 100.0 > old["scores_without"]["chrF2"]
    run(*given)
    assert "50.0 %" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"old\.txt does not say what was said"):
        run(tmp_path / "new.txt", tmp_path / "old.txt", "--terms", tmp_path / "terms.csv")


def run(*arguments):
    app(["evaluate", *map(str, arguments)], standalone_mode=False)
