"""A second search for terms that were heard, against the same search and its bonus done by hand."""

from dataclasses import replace

import pytest
import tiny
import torch

from npda.corpus.terms import Rendering, Term
from npda.decoding.beam import SearchOptions, search
from npda.models.backbone import Memory
from npda.terms import using
from npda.terms.nudging import contains
from npda.terms.termbase import Terms
from npda.terms.using import Searched, use_lists, use_terms

OPTIONS = SearchOptions(beam=4, max_length=12, n_best=4, stop_loops=False)
KITCHEN = Terms([Term(("kitchen",), "Kombüse", renderings=(Rendering("Küche", 0.9),))], "de")


@pytest.fixture
def searched():
    model = tiny.backbone()
    memory = model.hear(*tiny.speech([60, 80, 70]))
    return Searched(model, memory, torch.tensor([model.prompt()] * 3), OPTIONS)


@pytest.fixture
def ear(monkeypatch):
    heard = {}
    monkeypatch.setattr(Terms, "listen", lambda *_: heard)
    monkeypatch.setattr(using, "BONUS", 30.0)
    return heard


def found_by(searched):
    return search(searched.backbone, searched.memory, searched.prompts, OPTIONS)


def test_a_term_that_was_heard_is_searched_for_and_its_score_is_the_models_own(searched, ear):
    found, model = found_by(searched), searched.backbone
    ear[0] = "In the kitchen."
    used = use_terms(KITCHEN, searched, found, [0, 1, 2], n_best=2)
    assert [[h for h, _ in used[row]] for row in (1, 2)] == [found[row][:2] for row in (1, 2)]
    (best, placed), (second, _) = used[0]
    phrase = tuple(model.target.encode("Küche"))
    assert contains(best.tokens, phrase)
    assert "Kombüse" in placed.text
    assert [replacement.target for replacement in placed.replacements] == ["Kombüse"]
    assert second == found[0][0]
    fed = torch.tensor([[*model.prompt(), *best.tokens]])
    log_probs = model.logits(model.states(searched.memory, fed.expand(3, -1))[0]).log_softmax(-1)
    ended = [*best.tokens, *([model.target.eos] if best.ended else [])]
    own = sum(log_probs[len(model.prompt()) - 1 + n, token].item() for n, token in enumerate(ended))
    assert best.log_prob == pytest.approx(own, abs=1e-3)
    assert best.score == pytest.approx(own / len(ended) ** OPTIONS.length_penalty, abs=1e-3)


def test_without_the_term_in_what_is_found_again_everything_stays(searched, ear, monkeypatch):
    monkeypatch.setattr(using, "BONUS", 0.0)
    found = found_by(searched)
    ear[0] = "In the kitchen."
    used = use_terms(KITCHEN, searched, found, [0, 1, 2])
    assert [h for ((h, _),) in used] == [best for best, *_ in found]


def test_nothing_is_searched_for_again_where_nothing_is_lacking(searched, ear, monkeypatch):
    monkeypatch.setattr(using, "search", lambda *_: pytest.fail("searched again"))
    found = found_by(searched)
    ear[0] = "In the garden."
    used = use_terms(KITCHEN, searched, found, [0, 1, 2])
    assert [h for ((h, _),) in used] == [best for best, *_ in found]


def test_each_sentence_has_its_own_list_and_is_heard_again_itself(searched, ear):
    ear[0] = "In the kitchen."  # of the one sentence that has the list
    memory = Memory(searched.memory.states.flip(0), searched.memory.mask.flip(0))
    (((expected, _),),) = use_terms(KITCHEN, searched, found_by(searched)[:1], [0])
    turned = replace(searched, memory=memory)
    found = found_by(turned)
    used = use_lists([None, None, KITCHEN], turned, found, 1)
    assert [h for ((h, _),) in used[:2]] == [best for best, *_ in found[:2]]
    ((again, placed),) = used[2]
    assert again.tokens == expected.tokens
    assert "Kombüse" in placed.text
