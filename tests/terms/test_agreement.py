"""Articles and adjectives that change with their noun."""

from functools import partial

import pytest

from npda.corpus.terms import Rendering, Term
from npda.io.errors import InputError
from npda.io.files import write_lines
from npda.terms.agreement import Agreement, Observed, observe, words_before
from npda.terms.agreement_learning import learn_agreement, swapped
from npda.terms.general import gather
from npda.terms.record import AGREEMENT, TermFolder
from npda.terms.replacing import Change, replace


def observed(pairs, rendering="Schrank", other="Lampe"):
    return {(o.before, o.after): o.times for o in observe(rendering, "lamp", other, pairs)}


def test_what_differs_before_the_nouns_is_counted():
    pairs = [
        ("Ich mag den neuen Schrank.", "Ich mag die neue Lampe."),
        ("Den neuen Schrank mag ich.", "Die neue Lampe mag ich."),
        ("Er steht im Schrank.", "Er steht in der Lampe."),
        ("Das ist Toms Schrank.", "Das ist Toms Lampe."),
        ("Der Schrank", "Lampe"),
    ]
    assert observed(pairs) == {
        (("den", "neuen"), ("die", "neue")): 2,
        (("im",), ("in", "der")): 1,
        (("Toms",), ("Toms",)): 1,
        (("der",), ()): 1,
    }


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Der Schrank ist neu.", "Die Lampe ist alt."),
        ("Der Tisch ist neu.", "Die Lampe ist neu."),
        ("Der Schrank und der Schrank", "Die Lampe und der Schrank"),
        ("Heute sieht sie dort den Schrank", "Morgen hört er hier die Lampe"),
        ("Schrank", "Lampe"),
    ],
)
def test_sentences_that_differ_elsewhere_tell_nothing(one, two):
    assert observed([(one, two)]) == {}


def agreement(*rows, rendering="Schrank", like="lamp"):
    return [Observed(rendering, like, tuple(a.split()), tuple(b.split()), times) for a, b, times in rows]


def left(known, words, rendering="Schrank", like="lamp"):
    found = Agreement(known).left(rendering, like, words.split())
    return found and (found[0], " ".join(found[1]))


def test_what_was_seen_most_often_is_done():
    known = agreement(("den", "die", 3), ("den", "den", 1), ("der", "die", 1), ("der", "der", 2), ("im", "in der", 1))
    assert left(known, "Ich mag den") == (1, "die")
    assert left(known, "der") is None
    assert left(known, "im") == (1, "in der")
    assert left(known, "unbekannt") is None
    assert left(known, "") is None
    assert left(known, "den", like="house") is None


def test_an_adjective_that_was_not_seen_ends_like_others():
    known = agreement(("den neuen", "die neue", 2), ("ein neuer", "eine neue", 1), ("dieser", "diese", 1))
    assert left(known, "den großen") == (2, "die große")
    assert left(known, "ein großer") == (2, "eine große")
    assert left(known, "dieser große") == (2, "diese große")
    assert left(known, "dieser Maria") is None


def test_pairs_of_the_same_genders_teach_each_other():
    known = agreement(("den", "die", 1), ("ein", "eine", 1))
    tisch = agreement(("den", "die", 1), ("ein", "eine", 1), ("mein", "meine", 1), rendering="Tisch")
    haus = agreement(("den", "das", 1), ("ein", "ein", 1), ("dein", "deins", 1), rendering="Haus")
    assert left(known, "mein") is None
    assert left(known + tisch + haus, "mein") == (1, "meine")
    assert left(known + tisch + haus, "dein") is None


def test_words_before_a_place_end_at_punctuation():
    text = "Ja, in dem alten schönen Haus"
    assert words_before(text, text.index("Haus")) == ["dem", "alten", "schönen"]
    assert words_before(text, text.index("dem")) == ["in"]
    assert words_before(text, text.index("dem"), None) == ["ja", "in"]
    assert words_before("Dem Haus", 4) == ["dem"]


def test_a_sentence_begins_with_its_article():
    placed = replace("Der Schrank ist neu.", [Change(0, 11, "cabinet", "Kommode", None, ("die",))], "de")
    assert placed.text == "Die Kommode ist neu."
    (done,) = placed.replacements
    assert (done.start, done.end, done.rendering, done.target) == (0, 11, "Der Schrank", "Kommode")


def test_the_other_word_is_put_into_the_sentence():
    assert swapped("A cabinet and the Cabinet.", ("cabinet",), "old lamp", "en") == "An old lamp and the old lamp."
    assert swapped("Cabinets, cabinet", ("cabinet",), "lamp", None) == "Cabinets, lamp"
    assert swapped("Cabinet!", ("cabinet",), "lamp", None) == "Lamp!"


def test_sentences_with_either_word_are_read_with_both(tmp_path):
    genders = {"cabinet": "den Schrank", "lamp": "die Lampe", "dog": "den Hund", "cat": "die Katze"}
    verbs = {"see": "sehe", "have": "habe", "want": "will", "like": "mag"}
    write_lines(tmp_path / "a.txt", [f"I {verb} the {noun}" for noun in genders for verb in verbs])
    asked = []

    def read(sentences):
        asked.extend(sentences)
        return {s: f"Ich {verbs[s.split()[1]]} {genders[s.split()[3]]}" for s in sentences}

    term = Term(("cabinet",), "Kommode", "lamp", (Rendering("Schrank", 1.0),))
    found = learn_agreement([term], partial(gather, [tmp_path / "a.txt"]), read, "en")
    assert len(asked) == len(set(asked)) == 16
    assert found == [Observed("Schrank", "lamp", ("den",), ("die",), 8)]


def test_a_damaged_table_is_named(tmp_path):
    write_lines(tmp_path / AGREEMENT, ["rendering\tlike\tbefore\tafter\ttimes", "Schrank\tlamp\tden\tdie\toften"])
    with pytest.raises(InputError, match=r"agreement\.tsv, line 2: 'often' is not a count"):
        TermFolder(tmp_path).observed()
