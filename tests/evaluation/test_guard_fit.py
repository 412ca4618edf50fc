"""Fitting a gate: the formulas, and a store that is told from general text."""

import math

import numpy as np
import pytest
import tiny_store

from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.fusion import EndVotes
from npda.decoding.knn.guard import MEMORY, nearness
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.evaluation.devset import DevSet
from npda.evaluation.faults import StoreText
from npda.evaluation.tuning.climb import Space
from npda.evaluation.tuning.guard import OPEN, Guarding, evidence_along, fit_guard, smoothed
from npda.evaluation.tuning.objective import Outcome
from npda.evaluation.tuning.search import tune


def flat(*values: float) -> list[np.ndarray]:
    return [np.full(3, value) for value in values]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_gate_is_open_at_the_domain_and_closed_at_general_text():
    fit = fit_guard(flat(0.2, 0.4), flat(-0.2, -0.4), "speech")
    assert fit.guard.bias == pytest.approx(0.04 * 0.6)
    assert sigmoid(fit.guard.slope * 0.3) == pytest.approx(OPEN)
    assert (fit.domain, fit.general) == (1.0, 1.0)


def test_text_counts_for_less_than_speech():
    speech, text = (fit_guard(flat(0.3), flat(-0.3), way).guard.slope for way in ("speech", "text"))
    assert text == pytest.approx(speech / 0.6)


def test_the_bias_follows_sides_that_are_both_on_one_side():
    fit = fit_guard(flat(-0.1), flat(-0.4), "speech")
    assert fit.guard.bias == pytest.approx(-0.25 + 0.3 / 6 + 0.04 * 0.3)


def test_sentences_on_the_wrong_side_are_counted():
    fit = fit_guard(flat(0.3, 0.4, -0.3), flat(-0.2, 0.3), "speech")
    assert (fit.domain, fit.general) == (pytest.approx(2 / 3), 0.5)


def test_the_gate_of_a_store_that_cannot_be_told_from_general_text_stays_flat():
    fit = fit_guard(flat(0.11, -0.09), flat(0.1, -0.1), "speech")
    assert fit.guard.slope == pytest.approx(2.0)  # by the log-odds of the two, 0.01 / 0.01, it would be even flatter
    apart = fit_guard(flat(0.5, 0.1), flat(0.0, -0.4), "speech")  # means 0.5 apart, variance 0.04
    assert apart.guard.slope == pytest.approx(2 * math.log(OPEN / (1 - OPEN)) / 0.5)
    near = fit_guard(flat(0.4, 0.0), flat(0.1, -0.3), "speech")  # means 0.3 apart, variance 0.04
    assert near.guard.slope == pytest.approx(0.3 / 0.04)


def test_evidence_along_translations_is_that_of_their_states_one_by_one(tmp_path):
    model = tiny_store.backbone()
    store, counter = (Datastore.build(model, tiny_store.pairs(30, seed), tmp_path / f"{seed}") for seed in (1, 2))
    devset = DevSet(model, tiny_store.pairs(5, seed=3), "text")
    texts = devset.translations(SearchOptions(beam=2, max_length=8))
    found = evidence_along(devset, texts, store, counter)
    along = devset.along(texts)
    for batch in along.batches:
        for place, states in zip(batch.places, along.states(batch, along.memory(batch)), strict=True):
            d = [
                tiny_store.brute_force(s.entries.keys(np.arange(len(s))), states.numpy(), 1)[0][:, 0]
                for s in (store, counter)
            ]
            np.testing.assert_allclose(found[place], smoothed(nearness(*d)), atol=1e-2)


def test_smoothing_word_for_word():
    near, total, steps = [0.5, -0.2, 0.1], 0.0, 0.0
    expected = []
    for r in near:
        total, steps = MEMORY * total + r, MEMORY * steps + 1
        expected.append(total / (steps + 1))
    assert smoothed(np.array(near, np.float32)).tolist() == pytest.approx(expected)


def test_what_is_chosen_goes_behind_the_gate_and_the_search_stays(tmp_path):
    model, counter_text = tiny_store.backbone(), tiny_store.pairs(12, seed=4)
    store = Datastore.build(model, tiny_store.pairs(30), tmp_path / "store")
    counter = Datastore.build(model, counter_text, tmp_path / "counter")
    general, dev = DevSet(model, tiny_store.pairs(5, seed=7), "text"), tiny_store.pairs(5, seed=1)
    search = SearchOptions(beam=2, max_length=12)
    guarding = Guarding(store, counter, general, search)
    space = Space(length_penalties=(0.6, 1.4))
    tuning = tune(model, store, dev, "text", search, 4, space, progress=False, guarding=guarding)
    assert tuning.tuned_search == search
    assert {decoded.setting.length_penalty for decoded in tuning.decoded} == {0.6, 1.4}
    text = StoreText.of(store)
    for decoded in tuning.decoded:
        setting = decoded.setting
        alone = GuardedStore(
            store,
            setting.knn,
            guarding.found.guard,
            EndVotes(model.target.eos, setting.end_weight),
            length_penalty=setting.length_penalty,
        )
        found = DevSet(model, dev, "text").translations(search, [GuardedFusion([alone], counter)])
        assert decoded.outcome == Outcome.of(found, [pair.tgt_text for pair in dev], text)
