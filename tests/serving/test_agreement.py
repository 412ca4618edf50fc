"""What is stable is in whole words, only ever extended, and known as tokens."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.serving.captions.agreement import Agreement, common, opening, without_terms, words
from npda.terms.replacing import Change, Replacement, replace


@dataclass(frozen=True)
class Spoken:
    text: str
    tokens: tuple[int, ...] = ()
    terms: tuple[Replacement, ...] = ()
    stores: tuple[tuple[str, float], ...] = ()


def pieces(*parts: str):
    """A vocabulary of these pieces, and the whole of them said once."""

    def decode(tokens):
        return "".join(parts[token] for token in tokens).strip()

    return Spoken("".join(parts).strip(), tuple(range(len(parts)))), decode


@given(st.text())
def test_words_are_the_whole_text(text: str):
    found = words(text)
    assert "".join(found) == text.strip()
    assert all(word.strip() and not word[-1:].isspace() for word in found)


def test_a_script_without_spaces_has_characters_for_words():
    assert words("東京 is 大きい") == ["東", "京", " is", " 大", "き", "い"]


def test_two_passes_that_agree_make_stable_what_is_far_enough_from_the_end():
    agreement = Agreement(lambda tokens: "", held=1)
    assert agreement.add(Spoken("The cat sat."), grow=True) == "The cat sat."
    assert agreement.stable == ""
    assert agreement.add(Spoken("The cat sat on the mat."), grow=True) == " sat on the mat."
    assert agreement.stable == "The cat"  # "sat." and "sat" are not the same word
    assert agreement.add(Spoken("The dog sat on the mat again."), grow=True) == " sat on the mat again."
    assert agreement.stable == "The cat"
    assert not agreement.admits("The dog")
    assert agreement.close("The dog sat on the mat.") == "The cat sat on the mat."
    assert agreement.close("Cats sit.") == "The cat"
    assert agreement.close("") == "The cat"


def test_nothing_becomes_stable_unless_it_may():
    agreement = Agreement(lambda tokens: "", held=0)
    for _ in range(3):
        agreement.add(Spoken("one two three"), grow=False)
    assert agreement.stable == ""


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), max_size=12), st.integers(0, 3))
def test_stable_text_is_only_ever_extended(passes: list[list[str]], held: int):
    agreement, before, last = Agreement(lambda tokens: "", held), [], []
    for found in passes:
        agreement.add(Spoken(" ".join(found)), grow=True)
        stable = agreement.stable.split()
        assert stable[: len(before)] == before
        if stable != before:
            assert stable == found[: len(stable)] == last[: len(stable)]
            assert len(stable) <= min(len(found), len(last)) - held
        before, last = stable, found
        assert agreement.close(" ".join(found)).split()[: len(stable)] == stable


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_is_what_both_begin_with(one: list[int], other: list[int]):
    a, b = [str(n) for n in one], [str(n) for n in other]
    n = common(a, b)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def test_tokens_of_the_stable_text_end_with_a_word():
    said, decode = pieces("The", " cab", "inet", ",", " fell", ".")
    assert opening(said, "The", decode) == (0,)
    assert opening(said, "The cabinet,", decode) == (0, 1, 2, 3)
    assert opening(said, "The cab", decode) == (0, 1)
    assert opening(said, "Their", decode) == ()


def test_a_space_that_is_a_token_of_its_own_belongs_to_the_beginning():
    said, decode = pieces("The", " ", "cat")
    assert opening(said, "The", decode) == (0, 1)


@pytest.mark.parametrize(
    ("stable", "written"),
    [
        ("Der", "Der"),
        ("Der alte", None),  # half a term
        ("Der alte Schrank", "Der Kasten"),
        ("Der alte Schrank fiel und der", "Der Kasten fiel und der"),
        ("Der alte Schrank fiel und der Mann", "Der Kasten fiel und der Kerl"),
        ("Der alte Schrank fiel und der Mann ging.", "Der Kasten fiel und der Kerl ging."),
    ],
)
def test_terms_that_were_put_in_are_taken_out_for_the_tokens(stable: str, written: str | None):
    text = "Der Kasten fiel und der Kerl ging."
    changes = [Change(4, 10, "cupboard", "alte Schrank"), Change(24, 28, "guy", "Mann")]
    placed = replace(text, changes, "de")
    assert placed.text == "Der alte Schrank fiel und der Mann ging."
    assert without_terms(Spoken(placed.text, (), placed.replacements), stable) == written
