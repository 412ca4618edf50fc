"""The verdict on a learned combiner against the long way: a dev set, a training and a translation for every fold."""

import dataclasses
import json

import numpy as np
import pytest
import tiny_store
from hypothesis import given
from hypothesis import strategies as st

from npda.corpus.pairs import Pair
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.fusion import EndVotes, KnnFusion
from npda.evaluation.devset import DevSet
from npda.evaluation.faults import StoreText
from npda.evaluation.tuning.adaptive import learn_combiner, observe
from npda.evaluation.tuning.folds import split, tune_learned
from npda.evaluation.tuning.objective import Outcome
from npda.evaluation.tuning.search import tune
from npda.io.errors import InputError

SHORT = SearchOptions(beam=2, max_length=20)


@given(st.integers(2, 60), st.integers(2, 5))
def test_every_sentence_is_in_one_fold(count, folds):
    parts = split(count, folds)
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def dev() -> list[Pair]:
    return tiny_store.pairs(8, seed=1)


@pytest.fixture(scope="module")
def store(model, dev, tmp_path_factory) -> Datastore:
    related = [Pair(f"kalt {pair.src_text}", pair.tgt_text) for pair in dev]
    return Datastore.build(model, [*tiny_store.pairs(30), *related], tmp_path_factory.mktemp("store") / "store")


def test_no_combiner_has_seen_what_it_is_judged_by(model, store, dev):
    tuning = tune(model, store, dev, "text", SHORT, decodes=1, progress=False)
    tuning = dataclasses.replace(tuning, length_penalty=1.2, end_weight=0.5)
    devset = DevSet(model, dev, "text")
    learned = tune_learned(devset, store, tuning, folds=2)
    texts = [""] * len(dev)
    for fold in split(len(dev), 2):
        others = DevSet(model, [pair for place, pair in enumerate(dev) if place not in fold], "text")
        combiner, _ = learn_combiner(observe(others, store, learned.combiner.k), tuning.best.temperature)
        fusion = KnnFusion(store, combiner, EndVotes(model.target.eos, 0.5))
        judged = DevSet(model, [dev[place] for place in fold], "text")
        options = dataclasses.replace(SHORT, length_penalty=1.2)
        for place, text in zip(fold, judged.translations(options, [fusion]), strict=True):
            texts[place] = text
    assert learned.held_out == Outcome.of(texts, devset.references, StoreText.of(store))
    assert learned.value == learned.held_out.value(tuning.base)
    assert (learned.constants, learned.constants_value) == (tuning.outcome, tuning.outcome.value(tuning.base))
    assert learned.wins == (learned.value > learned.constants_value)
    again, fitted = learn_combiner(observe(devset, store, learned.combiner.k), tuning.best.temperature)
    assert learned.loss == fitted.losses[fitted.best]
    assert str(again) == str(learned.combiner)
    assert json.loads(json.dumps(learned.record()))["kept"] == learned.wins


def test_it_wins_only_if_it_is_better_than_the_constants(model, store, dev):
    tuning = tune(model, store, dev, "text", SHORT, decodes=1, progress=False)
    devset = DevSet(model, dev, "text")
    learned = tune_learned(devset, store, tuning, folds=2)
    equal = dataclasses.replace(learned, value=learned.constants_value)
    better = dataclasses.replace(learned, value=learned.constants_value + 0.01)
    assert (equal.wins, better.wins) == (False, True)


def test_too_few_sentences_are_no_judges(model, store, dev):
    tuning = tune(model, store, dev, "text", SHORT, decodes=1, progress=False)
    with pytest.raises(InputError, match="give 6 or more"):
        tune_learned(DevSet(model, dev[:5], "text"), store, tuning)
