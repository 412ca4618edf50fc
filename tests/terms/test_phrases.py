"""Where phrases of a list stand in a text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.terms.phrases import Phrases, begins_sentence, normal, spans, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The car's door, isn't it?", ["The", "car", "s", "door", "isn", "t", "it"]),
        ("L’ordre du jour: 3.5 % (e.g. C++)", ["L", "ordre", "du", "jour", "3.5", "%", "e.g", "C++"]),
        ("„Ja“ – ein T-Shirt …", ["Ja", "ein", "T-Shirt"]),
        ("", []),
        ("… !", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.text("ab .,'-’\n", max_size=20))
def test_spans_are_where_they_say(text):
    found = spans(text)
    assert [text[span.start : span.end] for span in found] == [span.word for span in found]
    assert all(a.end <= b.start for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("text", "place", "begins"),
    [("Car", 0, True), ("A car", 2, False), ("No. Car", 4, True), ("He said: “Car", 10, True), ("a, car", 3, False)],
)
def test_where_a_sentence_begins(text, place, begins):
    assert begins_sentence(text, place) is begins


def found_in(text: str, *phrases: str, smart: bool = False) -> list[str]:
    matches = Phrases(((phrase, phrase) for phrase in phrases), smart).find(text)
    assert all(normal(text[m.start : m.end]).casefold() == normal(m.value).casefold() for m in matches)
    return [match.value for match in matches]


def test_the_longest_phrase_counts_and_none_inside_another():
    assert found_in("A credit card, a card and credit.", "card", "credit card", "credit") == [
        "credit card",
        "card",
        "credit",
    ]
    assert found_in("credit, card", "credit card") == []
    assert found_in("the  point\nof order", "point of order") == ["point of order"]
    assert found_in("cardboard discards", "card") == []
    assert found_in("I don’t know", "don't") == ["don't"]


def test_case_counts_but_for_the_first_word_of_a_sentence():
    assert found_in("Order! An Order, an order.", "order") == ["order", "order"]
    assert found_in("Essen! Wir essen.", "Essen") == ["Essen"]
    assert found_in("Ein STUHL", "Stuhl") == []


def test_smart_case_is_that_of_the_list_unless_it_or_the_text_has_small_letters_only():
    assert found_in("Das Essen, das wir essen.", "Essen", smart=True) == ["Essen"]
    assert found_in("das essen, das wir essen", "Essen", smart=True) == ["Essen", "Essen"]
    assert found_in("A CABINET, a Cabinet, a cabinet", "cabinet", smart=True) == ["cabinet"] * 3


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=8), st.sets(st.sampled_from(["a", "b", "a b", "b c a"])))
def test_matches_are_those_of_a_walk_from_left_to_right(text, phrases):
    expected, place = [], 0
    while place < len(text):
        for length in (3, 2, 1):
            phrase = " ".join(text[place : place + length])
            if place + length <= len(text) and phrase in phrases:
                expected.append(phrase)
                place += length
                break
        else:
            place += 1
    assert found_in(" ".join(text), *phrases) == expected
