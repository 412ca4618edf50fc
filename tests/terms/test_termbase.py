"""Terms at work on finished translations."""

from types import SimpleNamespace
from typing import cast

import pytest
import tiny
import tiny_whisper
import torch

from npda.corpus.terms import Rendering, Term
from npda.decoding.beam import SearchOptions, search
from npda.io.errors import InputError
from npda.models.backbone import Backbone, Memory
from npda.models.inputs import hear_batch
from npda.terms import termbase
from npda.terms.ear import can_hear, transcripts
from npda.terms.termbase import Terms, believed

SURE, OPEN = 0.98, 0.3
LIST = [
    Term(("Auto",), "automobile", renderings=(Rendering("car", SURE),)),
    Term(("Bestellung",), "purchase order", renderings=(Rendering("order", OPEN), Rendering("booking", OPEN))),
    Term(("Bestellungen",), "purchase orders", renderings=(Rendering("orders", OPEN),)),
    Term(("Reservierung",), "reservation", renderings=(Rendering("booking", 0.6),)),
    Term(("Nacht",), "night", renderings=(Rendering("night", SURE), Rendering("evening", SURE))),
]
NOBODY = cast(Backbone, None)  # who is asked nothing
MEMORY = Memory(torch.zeros(3, 1, 1), torch.ones(3, 1, dtype=torch.bool))


@pytest.fixture
def ear(monkeypatch):
    """What it writes down, by sentence, with a hint and without one if that differs, and what it was asked."""
    said, plain, asked = {}, {}, {}

    def transcribe(backbone, memory, wanted):
        asked.update({row: hint for row, hint in wanted.items() if hint or row not in asked})
        return {row: said[row] if hint else plain.get(row, said[row]) for row, hint in wanted.items()}

    monkeypatch.setattr(termbase, "transcripts", transcribe)
    monkeypatch.setattr(termbase, "can_hear", lambda backbone: True)
    return SimpleNamespace(said=said, plain=plain, asked=asked)


def put_in(*texts, terms=LIST, language="en"):
    opened, of_each = Terms(terms, language), [[text] for text in texts]
    placed = opened.place(of_each, opened.listen(NOBODY, MEMORY, of_each))
    return [best.text for (best,) in placed]


def test_the_ear_is_asked_where_it_decides_and_nowhere_else(ear):
    ear.said[1] = "Meine Bestellung, bitte."
    texts = put_in("The car.", "My order, please.", "Good night.")
    assert texts == ["The automobile.", "My purchase order, please.", "Good night."]
    assert ear.asked == {1: ["Bestellung"]}


def test_what_was_not_said_is_left_alone(ear):
    ear.said[0] = "Ich möchte bestellen."
    assert put_in("I want to order.") == ["I want to order."]


def test_what_only_a_hint_lets_the_ear_hear_was_not_said(ear):
    ear.said[0], ear.plain[0] = "Eine Bestellung.", "Eine Stelle."
    assert put_in("An order.") == ["An order."]
    ear.plain[0] = "Eine Pizzabestellung."  # a part of a longer word
    assert put_in("An order.") == ["An order."]
    ear.plain[0] = "Eine Besteldung."  # misheard, but the same word
    assert put_in("An order.") == ["A purchase order."]


@pytest.mark.parametrize(
    ("hinted", "plain", "confirmed"),
    [
        ("Das Auto, die Nacht.", "Das Auto, die Nacht.", "Das Auto, die Nacht."),
        ("Das Auto, die Nacht.", "das outo die acht", "Das Auto, die Nacht."),
        ("Das Auto, die Nacht.", "Er lacht.", "Das …, die Nacht."),
        ("Zwei Bestellungen.", "Zwei Pizzen", "Zwei …."),
        ("", "Ja.", ""),
    ],
)
def test_a_transcript_without_a_hint_confirms_terms(hinted, plain, confirmed):
    assert Terms(LIST, "en").confirmed(hinted, plain) == confirmed


def test_of_two_places_the_one_that_was_said_is_changed(ear):
    ear.said[0] = "Ich möchte bestellen, wo ist meine Bestellung?"
    assert put_in("I want to order, where is my order?") == ["I want to order, where is my purchase order?"]
    ear.said[0] = "Bestellung, Bestellung!"
    assert put_in("An order, an order!") == ["A purchase order, a purchase order!"]


def test_of_two_terms_with_one_rendering_the_one_that_was_said_counts(ear):
    ear.said[0] = "Die Bestellung fehlt."
    assert put_in("The booking is missing.") == ["The purchase order is missing."]
    ear.said[0] = "Die Reservierung fehlt."
    assert put_in("The booking is missing.") == ["The reservation is missing."]


def test_without_an_ear_the_purity_decides(monkeypatch):
    monkeypatch.setattr(termbase, "can_hear", lambda backbone: False)
    assert put_in("A car, an order, a booking.") == ["An automobile, an order, a reservation."]


def test_what_is_wanted_already_stays(ear):
    ear.said[0] = "Meine Bestellung"
    assert put_in("My purchase order") == ["My purchase order"]
    assert not ear.asked


def test_every_alternative_gets_its_terms_from_one_transcript(ear):
    ear.said[0] = "Zwei Bestellungen."
    terms, texts = Terms(LIST, "en"), [["Two orders.", "An order.", "Two things."]]
    ((first, second, third),) = terms.place(texts, terms.listen(NOBODY, MEMORY, texts))
    assert [placed.text for placed in (first, second, third)] == ["Two purchase orders.", "An order.", "Two things."]
    (done,) = first.replacements
    assert (done.source, done.target, done.rendering, done.start, done.end, done.heard) == (
        *("Bestellungen", "purchase orders", "orders"),
        *(4, 19, True),
    )


def test_the_ear_is_asked_about_what_only_another_hypothesis_holds(ear):
    ear.said[0] = "Mein Auto."
    terms = Terms(LIST, "en")
    assert terms.listen(NOBODY, MEMORY, [["My vehicle.", "My car."]]) == {0: "Mein Auto."}
    assert ear.asked == {0: ["Auto"]}
    assert not terms.listen(NOBODY, MEMORY, [["My automobile.", "My car."], ["My car.", "My vehicle."]])
    ((placed,),) = terms.place([["My vehicle."]], ear.said)
    assert terms.lacking(placed, "Mein Auto und meine Nacht.") == [(0,), (4,)]
    ((placed,),) = terms.place([["My car."]], {})
    assert terms.lacking(placed, "Mein Auto.") == []


def test_an_attentive_list_has_everything_written_down(ear):
    ear.said.update({0: "Ja.", 1: "Meine Bestellung."})
    heard = Terms(LIST, "en", attentive=True).listen(NOBODY, MEMORY, [["Yes."], ["My order."]])
    assert heard == ear.said
    assert ear.asked == {0: [], 1: ["Bestellung"]}


def test_belief_follows_bayes():
    for purity in (0.01, 0.3, 0.5, 0.9, 0.99):
        for heard, hit, alarm in ((True, 0.95, 0.02), (False, 0.05, 0.98)):
            posterior = purity * hit / (purity * hit + (1 - purity) * alarm)
            assert believed(purity, heard) is (posterior >= 0.5)
        assert believed(purity, None) is (purity >= 0.5)


def test_a_plain_list_says_what_to_run(tmp_path):
    (tmp_path / "terms.csv").write_text("Auto,automobile\n")
    with pytest.raises(InputError, match=r"run `npda terms .*terms\.csv --general TEXT --model MODEL --out FOLDER`"):
        Terms.open([tmp_path / "terms.csv"])
    with pytest.raises(InputError, match="holds no terms: make it with `npda terms`"):
        Terms.open([tmp_path])


def test_of_two_lists_the_later_counts(tmp_path):
    for name, target in (("a", "automobile"), ("b", "motorcar")):
        (tmp_path / f"{name}.tsv").write_text(f"source\ttarget\trenderings\tpurity\nAuto\t{target}\tcar\t1\n")
    terms = Terms.open([tmp_path / "a.tsv", tmp_path / "b.tsv"])
    assert [term.target for term in terms.terms] == ["motorcar"]


def test_a_transcript_shares_what_was_heard_and_does_not_depend_on_its_batch():
    model = tiny_whisper.backbone()
    waves = [tiny_whisper.waveform(0.3 + 0.2 * row, row) for row in range(3)]
    memory = hear_batch(model, [model.features(wave) for wave in waves])
    wanted = {0: ["Boden"], 2: ["Boden", "der Antrag", "Das Wort"]}
    found = transcripts(model, memory, wanted)
    assert set(found) == {0, 2}
    for row, words in wanted.items():
        alone = hear_batch(model, [model.features(waves[row])])
        ((best,),) = search(model, alone, model.transcript_prompt(words), SearchOptions(beam=1, max_length=160))
        assert found[row] == model.target.decode(best.tokens)


def test_prompts_tell_of_words_and_have_few_lengths():
    model = tiny_whisper.backbone()
    special = model.target.special
    task = [special(name) for name in ("startoftranscript", "de", "transcribe", "notimestamps")]
    assert model.transcript_prompt() == task
    lengths = set()
    for count in range(1, 6):
        words = ["Boden", "Antrag", "Wort", "Küche", "Fraktion"][:count]
        before, *hints = model.transcript_prompt(words)[: -len(task)]
        assert before == special("startofprev")
        assert words[0] in model.target.decode(hints)
        lengths.add(len(hints))
    assert all(length % 8 == 0 or length == model.max_target // 2 - 1 for length in lengths)
    assert can_hear(model)
    assert not can_hear(tiny.backbone())
