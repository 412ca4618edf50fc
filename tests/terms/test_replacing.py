"""One phrase in the place of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.terms.replacing import Change, replace, takes_an


def put(text: str, old: str, new: str, language: str | None = "en") -> str:
    start = text.index(old)
    placed = replace(text, [Change(start, start + len(old), "said", new)], language)
    (done,) = placed.replacements
    assert (placed.text[done.start : done.end].lower(), done.rendering) == (new.lower(), old)
    return placed.text


def test_case_follows_the_sentence():
    assert put("The car stops.", "car", "automobile") == "The automobile stops."
    assert put("Cars stop.", "Cars", "automobiles") == "Automobiles stop."
    assert put("Stop! Cars stop.", "Cars", "automobiles") == "Stop! Automobiles stop."
    assert put("Phones ring.", "Phones", "iPhones") == "iPhones ring."
    assert put("the Machine", "Machine", "ATM") == "the ATM"


def test_the_article_follows_the_word():
    assert put("A car, an order.", "car", "automobile") == "An automobile, an order."
    assert put("A car, an order.", "order", "purchase order") == "A car, a purchase order."
    assert put("an order", "order", "USB stick") == "a USB stick"
    assert put("Drei Mann an Bord.", "Bord", "Deck", "de") == "Drei Mann an Deck."
    assert put("an order", "order", "Kauf", None) == "an Kauf"
    assert put("banana order", "order", "cat") == "banana cat"


def test_what_ends_with_an_s_has_only_an_apostrophe():
    assert put("A child's book.", "child", "youngsters") == "A youngsters' book."
    assert put("A child’s book.", "child", "youngsters") == "A youngsters’ book."
    assert put("A child's book.", "child", "infant") == "An infant's book."
    assert put("Das Kind's", "Kind", "Haus", "de") == "Das Haus's"


@pytest.mark.parametrize(
    ("word", "an"),
    [
        ("automobile", True), ("car", False), ("hour", True), ("house", False), ("university", False),
        ("unimportant detail", True), ("umbrella", True), ("European", False), ("one-off", False), ("ATM", True),
        ("FBI agent", True), ("NASA engineer", False), ("USB stick", False), ("8-bit word", True), ("user", False),
    ],
)  # fmt: skip
def test_which_words_take_an(word, an):
    assert takes_an(word) is an


@given(st.lists(st.sampled_from(["car", "bus", "a", "an", "it"]), max_size=9), st.data())
def test_all_else_stays_and_every_change_is_where_it_says(words, data):
    text = " ".join(words)
    changes, place = [], 0
    for word in words:
        if word in ("car", "bus") and data.draw(st.booleans()):
            changes.append(Change(place, place + len(word), word, data.draw(st.sampled_from(["auto", "x y", "Z"]))))
        place += len(word) + 1
    placed = replace(text, changes, None)
    for change, done in zip(changes, placed.replacements, strict=True):
        assert placed.text[done.start : done.end].lower() == change.target.lower()
    back = placed.text
    for done in reversed(placed.replacements):
        back = back[: done.start] + done.rendering + back[done.end :]
    assert back == text
