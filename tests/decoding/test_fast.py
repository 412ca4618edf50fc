"""Searching the sentences that share words with what is said, against looking through all of them."""

import numpy as np
import pytest
import tiny_store
import torch

from npda.corpus.pairs import Pair
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.pruning import PruneOptions
from npda.datastore.source import BuildOptions
from npda.datastore.source_words import SourceWords, words
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fast import FastFusion, FastOptions, FastRetriever
from npda.decoding.knn.fusion import KnnFusion

TEXTS = ["The floor is yours", "the window", "Wo ist die Küche?", "the floor is cold", "window, window!"]


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def store(model, tmp_path_factory) -> Datastore:
    pairs = [Pair(text, f"{text} aber") for text in TEXTS]
    pairs += tiny_store.pairs(40)
    return Datastore.build(model, pairs, tmp_path_factory.mktemp("store") / "store", options=BuildOptions(chunk=12))


def key_ids(store: Datastore, wanted) -> list[int]:
    """Ids whose sentence is wanted, one by one."""
    return [id_ for id_ in range(len(store)) if wanted(store.neighbour_info(id_).source_text)]


def test_words_have_no_case_and_no_marks():
    assert words("Wo ist DIE Küche? Wo?") == {"wo", "ist", "die", "küche"}


def test_sentences_and_their_keys(store):
    sources = SourceWords(store)
    assert len(sources) == len(TEXTS) + 40
    for number, text in enumerate(TEXTS):
        ids = sources.keys(np.array([number]))
        assert {store.neighbour_info(int(i)).source_text for i in ids} == {text}
        assert (sources.sentences(ids) == number).all()
        assert set(sources.said(np.array([number]))) == words(text)
    both = sources.keys(np.array([2, 0]))
    assert both.tolist() == sorted([*sources.keys(np.array([0])), *sources.keys(np.array([2]))])
    assert sources.said(np.array([0, 3]))["floor"] == 1
    assert sources.said(np.array([0, 3]))["cold"] == 0.5


def test_sharing_is_by_rare_words_first(store):
    sources = SourceWords(store)
    everywhere = [set(words(store.neighbour_info(int(sources.keys(np.array([n]))[0])).source_text)) for n in range(45)]
    guess = {"the": 1.0, "cold": 0.5, "küche": 1.0, "never": 1.0}
    frequency = {word: sum(word in own for own in everywhere) for word in guess}
    scores = [
        sum(share * np.log(46 / (1 + frequency[word])) for word, share in guess.items() if word in own)
        for own in everywhere
    ]
    best = np.argsort(-np.array(scores), kind="stable")
    for count in (1, 3, 10, 45):
        expected = sorted(int(n) for n in best[:count] if scores[n] > 0)
        assert sources.sharing(guess, count).tolist() == expected
    assert sources.sharing(["never"], 5).tolist() == []


def test_narrowed_by_a_transcript_it_is_brute_force_over_these_sentences(store):
    retriever = FastRetriever(store, FastOptions(sentences=3))
    retriever.narrow(["is the floor yours"])
    chosen = {store.neighbour_info(int(i)).source_text for i in SourceWords(store).keys(
        SourceWords(store).sharing(words("is the floor yours"), 3))}  # fmt: skip
    assert "The floor is yours" in chosen
    ids = np.array(key_ids(store, lambda text: text in chosen))
    queries = np.random.default_rng(0).normal(size=(30, store.dim)).astype(np.float32)
    distances, places = tiny_store.brute_force(store.entries.keys(ids), queries, 6)
    found = retriever.search(queries, 6)
    np.testing.assert_array_equal(found.ids, ids[places])
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5)
    np.testing.assert_array_equal(found.values, store.entries.values()[found.ids])
    assert retriever.share_searched == pytest.approx(len(ids) / len(store))
    retriever.widen()
    np.testing.assert_array_equal(retriever.search(queries, 6).ids, store.search(queries, 6).ids)


def test_words_nobody_has_find_nobody(store):
    retriever = FastRetriever(store)
    retriever.narrow(["qqq"])
    found = retriever.search(np.zeros((2, store.dim), np.float32), 4)
    assert (found.ids == -1).all()
    assert (found.values == -1).all()
    assert np.isinf(found.distances).all()


def test_the_first_neighbours_tell_what_is_said(store):
    retriever = FastRetriever(store, FastOptions(neighbours=1, sentences=4))
    sources = SourceWords(store)
    asking = int(sources.keys(np.array([2]))[1])
    state = store.entries.keys(np.array([asking]))
    assert retriever.search(state, 3).ids.tolist() == store.search(state, 3).ids.tolist()
    retriever.narrow()
    expected = sources.keys(sources.sharing(words(TEXTS[2]), 4))
    assert sorted(retriever.search(state, len(expected)).ids[0].tolist()) == expected.tolist()


@torch.inference_mode()
def test_in_the_beam_every_search_begins_with_all_keys(model, store):
    features, lengths = torch.randn(2, 40, 80, generator=torch.Generator().manual_seed(0)), torch.tensor([40, 40])
    knn, options = KnnOptions(4, 0.8, 10.0), SearchOptions(beam=3, max_length=12)

    def decode(fusion, rows):
        return search(model, model.hear(features[rows], lengths[rows]), model.prompt(), options, [fusion])

    everything = FastFusion(FastRetriever(store, FastOptions(steps=99)), knn)
    assert decode(everything, [0, 1]) == decode(KnnFusion(store, knn), [0, 1])
    assert everything.retriever.share_searched == 1
    fast = FastFusion(FastRetriever(store, FastOptions(neighbours=4, sentences=5)), knn)
    alone = [decode(fast, [row]) for row in (0, 1)]
    assert 0 < fast.retriever.share_searched < 0.7
    fresh = FastFusion(FastRetriever(store, FastOptions(neighbours=4, sentences=5)), knn)
    assert decode(fresh, [1]) == alone[1]  # nothing is left of the sentence before


def test_a_compressed_store_is_searched_by_its_own_measure(store, tmp_path):
    small = compress(store, tmp_path / "small", CompressOptions(dim=8, prune=PruneOptions(keep=0.8)))
    retriever = FastRetriever(small, FastOptions(sentences=1000))
    every_word = " ".join(small.neighbour_info(i).source_text for i in range(len(small)))
    retriever.narrow([every_word])
    queries = np.random.default_rng(0).normal(size=(5, store.dim)).astype(np.float32)
    np.testing.assert_array_equal(retriever.search(queries, 5).ids, small.search(queries, 5).ids)
