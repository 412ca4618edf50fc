"""Renderings learnt from sentences and their translations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.terms.phrases import Span
from npda.terms.renderings import bayes, learn_renderings, usual_case

SUBJECTS = [("Er", "he"), ("Sie", "she"), ("Tom", "Tom"), ("Maria", "Mary")]
THINGS = [("Hund", "dog"), ("Baum", "tree"), ("Brief", "letter"), ("Ball", "ball")]


def corpus(*nouns: tuple[str, str]) -> list[tuple[str, str]]:
    """Every subject sees, draws and has every noun."""
    verbs = [("sieht", "sees"), ("malt", "draws"), ("hat", "has")]
    return [
        (f"{s} {v} den {n}.", f"{t[0].upper()}{t[1:]} {w} the {m}.")
        for s, t in SUBJECTS
        for v, w in verbs
        for n, m in (*THINGS, *nouns)
    ]


def renderings(sources, pairs, shares=None):
    (found,) = learn_renderings([sources], pairs, shares)
    return {rendering.text: rendering.purity for rendering in found.renderings}


def test_a_word_and_words_of_several():
    pairs = corpus(("Wagen", "car"), ("Wagen", "car"), ("Wagen", "coach"), ("Ausweis", "identity card"))
    assert renderings(("Wagen",), pairs) == {"car": 1.0, "coach": 1.0}
    assert renderings(("Ausweis",), pairs) == {"identity card": 1.0}
    both = learn_renderings([("Wagen",), ("Ausweis",)], pairs)
    assert [[r.text for r in learnt.renderings] for learnt in both] == [["car", "coach"], ["identity card"]]
    assert [learnt.contexts for learnt in both] == [36, 12]


def test_terms_of_several_words_and_several_ways_to_say_one():
    pairs = corpus(("roten Faden", "thread"), ("Faden", "string"), ("Leitfaden", "thread"))
    assert renderings(("roten Faden", "Leitfaden"), pairs) == {"thread": 1.0}
    (_, single) = learn_renderings([("roten Faden",), ("Faden",)], pairs)
    assert [r.text for r in single.renderings] == ["string"]  # the longer term is none of its contexts


def test_purity_is_the_share_of_times_in_which_the_term_was_said():
    pairs = corpus(("Karte", "card"), ("Pappe", "card"), ("Postkarte", "card"))
    assert renderings(("Karte",), pairs) == {"card": 0.33}
    # In a text that holds the term more rarely, a card is rarely this one.
    share = 12 / len(pairs)
    expected = round(0.01 / (0.01 + 0.99 * 24 / (len(pairs) - 12)), 2)
    assert renderings(("Karte",), pairs, [0.01]) == {"card": expected}
    assert renderings(("Karte",), pairs, [share]) == {"card": 0.33}


def test_an_article_is_no_part_of_a_rendering():
    pairs = [(s, t.replace("the hour", "an hour")) for s, t in corpus(("Stunde", "hour"))]
    pairs += [("Ein Ei.", "An egg."), ("Ein Apfel.", "An apple."), ("Ein Auge.", "An eye.")] * 40
    assert set(renderings(("Stunde",), pairs)) == {"hour"}


def test_a_term_that_nobody_says_has_no_renderings():
    assert learn_renderings([("Mond",)], corpus())[0].renderings == ()
    assert learn_renderings([("Mond",)], [])[0].contexts == 0
    assert learn_renderings([], corpus()) == []


def test_first_words_have_the_case_of_other_places():
    usual = usual_case(["Dogs bark.", "The dogs.", "Tom sees Mary.", "Mary sees Tom."])
    assert usual("Dogs bark.", Span("Dogs", 0, 4)) == "dogs"
    assert usual("Mary sees.", Span("Mary", 0, 4)) == "Mary"


@given(st.floats(0, 1), st.integers(0, 20), st.integers(0, 20))
def test_bayes_is_a_share_of_sentences(share, inside, outside):
    """Of 1000 sentences a share holds the term; each kind has the rendering in so many of twenty."""
    said, unsaid = 1000 * share * inside / 20, 1000 * (1 - share) * outside / 20
    expected = said / (said + unsaid) if said + unsaid else 0.0
    assert bayes(share, inside / 20, outside / 20) == pytest.approx(expected)
