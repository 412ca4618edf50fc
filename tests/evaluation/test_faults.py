"""Faults against brute force: every slice of a text for loops, every sentence of a store for copies."""

import json
from itertools import product

import pytest
import tiny_store
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from npda.cli.evaluate import evaluate
from npda.corpus.wording import loops, normalize, words
from npda.datastore.store import Datastore
from npda.evaluation.faults import Faults, StoreText, count_faults, find_faults
from npda.io.errors import InputError

REFERENCES = ["The cat sleeps on the warm roof.", "No, no, no, no, no!", "Yes, please.", "We meet at ten."]


def repeated(tokens: list[str]) -> bool:
    """Every phrase at every place: is it followed by itself often enough?"""
    enough = {1: 5, 2: 4}
    for start, period in product(range(len(tokens)), range(1, len(tokens) + 1)):
        phrase, times = tokens[start : start + period], enough.get(period, 3)
        if len(phrase) == period and tokens[start : start + period * times] == phrase * times:
            return True
    return False


@given(st.lists(st.sampled_from("abc"), max_size=14))
def test_a_loop_is_a_phrase_that_follows_itself(tokens):
    assert loops(" ".join(tokens)) == repeated(tokens)


@given(st.lists(st.sampled_from("abcdefg"), max_size=4), st.integers(1, 5), st.integers(1, 7), st.data())
def test_a_loop_is_found_after_any_beginning(start, period, times, data):
    phrase = data.draw(st.lists(st.sampled_from("xyz"), min_size=period, max_size=period))
    tokens = [*start, *phrase * times]
    assert loops(" ".join(tokens)) == repeated(tokens)


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ("____ ____ ____ ____ ____", True),
        ("I want to ________________ it", True),
        ("We have ____ of it.", False),
        ("Hahahahahaha", True),
        ("Nooooo!", False),
        ("Bananas", False),
        ("It costs 1,000,000,000.", False),
        ("He went to The house, to the HOUSE. To the house", True),
        ("好的好的好的好的", True),
        ("", False),
    ],
)
def test_loops_by_hand(text, looping):
    assert loops(text) == looping


def test_words_are_counted_without_case_and_punctuation():
    assert words("It's — well, TEN!") == ["it's", "well", "ten"]
    assert words("好的 ok") == ["好", "的", "ok"]


def test_faults_by_hand():
    outputs = ["The cat.", "No, no, no, no, no!", "...", "We meet meet meet meet meet at ten."]
    assert find_faults(outputs, REFERENCES) == {"cut_short": [0, 2], "empty": [2], "looping": [3]}
    found = count_faults(outputs, REFERENCES)
    assert found == Faults(n=4, words=15, reference_words=18, cut_short=2, empty=1, looping=1)
    assert found.length_ratio == 15 / 18
    assert found.record()["length_ratio"] == 0.8333
    assert count_faults(REFERENCES, REFERENCES).length_ratio == 1
    # A reference without words asks for none.
    assert find_faults(["", "a"], ["...", "a"]) == {"cut_short": [], "empty": [], "looping": []}
    with pytest.raises(InputError, match="aligned line by line"):
        count_faults(["a"], REFERENCES)


@given(st.data())
def test_copies_are_sentences_of_the_store_that_the_reference_is_not(data):
    sentence = st.lists(st.sampled_from(["Ja", "ja,", "NEIN", "nein", "gut!"]), min_size=1, max_size=3).map(" ".join)
    stored, outputs = data.draw(st.lists(sentence, max_size=6)), data.draw(st.lists(sentence, min_size=1, max_size=6))
    references = data.draw(st.lists(sentence, min_size=len(outputs), max_size=len(outputs)))
    expected = [
        n
        for n, (text, reference) in enumerate(zip(outputs, references, strict=True))
        if any(normalize(text) == normalize(s) for s in stored) and normalize(text) != normalize(reference)
    ]
    assert find_faults(outputs, references, StoreText(stored))["copies"] == expected


def test_what_is_taken_from_the_store_has_nothing_of_the_reference():
    stored = ["There is an oil leak in the engine.", "Yes, I can do it!", "Thanks so much."]
    references = ["Main Street 15", "Thanks very much.", "My dog barks.", "Why?", "There is an oil leak in the engine"]
    outputs = ["there is an oil leak", "Thanks so much", "Blue skies over Utah", "So: yes I can do it", stored[0]]
    found = find_faults(outputs, references, StoreText(stored))
    # The first is part of a sentence of the store, the second near enough to the reference, the third from nowhere.
    assert (found["copies"], found["invented"]) == ([1], [0, 3])
    assert StoreText(stored).taken(outputs) == [True, True, False, True, True]


app = typer.Typer()
app.command()(evaluate)


def test_evaluate_shows_faults_with_and_without_a_store(tmp_path):
    pairs = tiny_store.pairs(8)
    store = Datastore.build(tiny_store.backbone(), pairs, tmp_path / "store")
    references = [f"{pair.tgt_text} und mehr davon" for pair in pairs]
    outputs = [pairs[0].tgt_text.upper(), "", *references[2:]]
    for name, lines in (("out.txt", outputs), ("references.txt", references), ("base.txt", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def npda(*more: str) -> str:
        arguments = [str(tmp_path / "out.txt"), str(tmp_path / "references.txt"), *more]
        answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments, catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    plain = json.loads(npda("--json"))
    assert plain["faults"] == count_faults(outputs, references).record()
    assert plain["baseline_faults"] is None
    assert plain["fault_lines"]["empty"] == [2]
    compared = ("--store", str(tmp_path / "store"), "--baseline", str(tmp_path / "base.txt"), "--samples", "100")
    stored = json.loads(npda("--json", *compared))
    assert stored["faults"] == count_faults(outputs, references, StoreText.of(store)).record()
    assert stored["baseline_faults"] == count_faults(references, references, StoreText.of(store)).record()
    assert (stored["faults"]["copies"], stored["fault_lines"]["copies"]) == (1, [1])
    shown = npda(*compared)
    for row in ("length ratio", "cut short", "empty", "looping", "copies", "invented"):
        assert row in shown
    assert "copies" not in npda()
    assert "faults" not in json.loads(npda("--metric", "wer", "--json"))
    with pytest.raises(InputError, match="no-store"):
        npda("--store", str(tmp_path / "no-store"))
