"""The bonus of a nudged search against a count over whole hypotheses."""

import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from npda.decoding.beam import SearchOptions, search
from npda.terms.nudging import Nudge, contains

TOKENS = st.integers(0, 3)
PHRASES = st.lists(st.lists(TOKENS, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2)


def credited(written, phrases):
    """The bonus, in units, that a hypothesis has: one once a phrase is there or under way."""
    whole = any(contains(written, phrase) for phrase in phrases)
    under_way = any(
        len(written) >= n and tuple(written[-n:]) == phrase[:n] for phrase in phrases for n in range(1, len(phrase))
    )
    return float(whole or under_way)


@given(st.lists(TOKENS, max_size=7), PHRASES)
def test_bonuses_add_up_to_one_for_what_is_there_or_under_way(written, phrases):
    nudge = Nudge({0: [phrases]}, prompted=1, bonus=1.0)
    total = 0.0
    for place, token in enumerate(written):
        prefix = torch.tensor([[9, *written[:place]]])
        change = nudge.apply(torch.zeros(1, 1), torch.zeros(1, 4), prefix, torch.tensor([0]))
        total += float(change[0, token])
        assert total == credited(written[: place + 1], phrases)


def test_sentences_without_a_wish_stay_as_they_are():
    nudge = Nudge({1: [[(2,)]]}, prompted=0, bonus=3.0)
    log_probs = torch.zeros(2, 4)
    found = nudge.apply(torch.zeros(2, 1), log_probs, torch.zeros(2, 1, dtype=torch.long), torch.tensor([0, 1]))
    assert found.tolist() == [[0, 0, 0, 0], [0, 0, 3, 0]]
    assert not log_probs.any()


def test_a_nudged_search_finds_the_phrase_and_pays_for_it():
    model = tiny.backbone()
    memory = model.hear(*tiny.speech([60, 80]))
    options = SearchOptions(beam=4, max_length=12, length_penalty=0.0)
    plain = search(model, memory, model.prompt(), options)
    phrase = tuple(model.target.encode("Küche"))
    nudge = Nudge({1: [[phrase]]}, len(model.prompt()), 30.0)
    nudged = search(model, memory, model.prompt(), options, [nudge])
    assert nudged[0] == plain[0]
    assert not contains(plain[1][0].tokens, phrase)
    assert contains(nudged[1][0].tokens, phrase)
    fed = torch.tensor([[*model.prompt(), *nudged[1][0].tokens]])
    log_probs = model.logits(model.states(memory, fed.expand(2, -1))[1]).log_softmax(-1)
    ended = [*nudged[1][0].tokens, *([model.target.eos] if nudged[1][0].ended else [])]
    own = sum(log_probs[len(model.prompt()) - 1 + n, token].item() for n, token in enumerate(ended))
    torch.testing.assert_close(nudged[1][0].log_prob, own + 30.0, atol=1e-3, rtol=0)
