"""A translator and its store: which combiner decides."""

import json

import numpy as np
import pytest
import tiny_store
import torch

from npda import Datastore, SearchOptions, Translator
from npda.decoding.knn.adaptive import AdaptiveCombiner, AdaptiveOptions, save_adaptive
from npda.decoding.knn.combiners import KnnOptions, Retrieved

SHORT = SearchOptions(beam=2, max_length=12, n_best=2)
SPEECH = np.random.default_rng(0).normal(scale=0.1, size=8_000).astype(np.float32)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(tiny_store.backbone())


@pytest.fixture
def store(translator, tmp_path) -> Datastore:
    return Datastore.build(translator, tiny_store.pairs(20), tmp_path / "store")


def tune(store: Datastore, options: KnnOptions) -> None:
    """As `npda tune` leaves it."""
    found = {"k": options.k, "lambda": options.lambda_, "temperature": options.temperature}
    how = {"way": "text", "beam": 5, "length_penalty": 0.6, "bleu": 1.0, "base_bleu": 0.0, "store": store.digest}
    (store.path / "knn.json").write_text(json.dumps({"format": 1, **found, **how}))


def test_a_tuned_store_is_used_as_it_was_tuned(translator, store):
    tuned = KnnOptions(3, 0.9, 50.0)
    by_default = translator.translate(SPEECH, SHORT, datastore=store)
    assert by_default == translator.translate(SPEECH, SHORT, datastore=store, combiner=KnnOptions())
    tune(store, tuned)
    expected = translator.translate(SPEECH, SHORT, datastore=store, combiner=tuned)
    assert expected != by_default
    assert translator.translate(SPEECH, SHORT, datastore=store) == expected
    assert translator.translate(SPEECH, SHORT, datastore=[store]) == expected
    (by_hand,) = translator.translate_all([SPEECH], SHORT, fusions=[translator.neighbours([store])])
    assert by_hand == expected
    changed = translator.translate(SPEECH, SHORT, datastore=store, lambda_=0.2)
    assert changed == translator.translate(SPEECH, SHORT, datastore=store, combiner=KnnOptions(3, 0.2, 50.0))
    assert changed != expected


def test_the_learned_combiner_of_a_store(translator, store):
    torch.manual_seed(3)
    learned = AdaptiveCombiner(AdaptiveOptions(k=4, scale=5.0)).eval()
    save_adaptive(store.path, learned, store.digest)
    expected = translator.translate(SPEECH, SHORT, datastore=store, combiner=learned)
    assert translator.translate(SPEECH, SHORT, datastore=store, adaptive=True) == expected
    assert translator.translate(SPEECH, SHORT, datastore=store) != expected
    with pytest.raises(ValueError, match="leave it out"):
        translator.translate(SPEECH, SHORT, datastore=store, adaptive=True, k=4)
    with pytest.raises(ValueError, match="leave them out"):
        translator.translate(SPEECH, SHORT, datastore=store, combiner=learned, k=4)


class Nearest:
    """A combiner that believes the nearest neighbour alone."""

    k = 1
    is_inactive = False

    def __str__(self) -> str:
        return "nearest"

    def combine(self, found: Retrieved):
        return torch.ones_like(found.distances), 1.0


class Insisting:
    """A fusion under which nothing but one token is written."""

    def __init__(self, token: int) -> None:
        self.token = token

    def apply(self, states, log_probs, prefixes, sentences):
        return torch.full_like(log_probs, -1e9).index_fill(1, torch.tensor([self.token]), 0.0)


def test_combiner_and_fusions_of_ones_own(translator, store):
    greedy = SearchOptions(beam=1, max_length=5)
    own = translator.translate(SPEECH, greedy, datastore=store, combiner=Nearest())
    assert own.text == translator.translate(SPEECH, greedy, datastore=store, k=1, lambda_=1.0).text
    tokens = translator.backbone.target.encode("Wort")[-1:]
    insisted = translator.translate(SPEECH, greedy, fusions=[Insisting(*tokens)])
    assert insisted.text == translator.backbone.target.decode(tokens * 5)
    # Fusions come before the store, which then has λ of it.
    steered = translator.translate(SPEECH, greedy, fusions=[Insisting(*tokens)], datastore=store, combiner=Nearest())
    assert steered.text == own.text
