"""Sentences of one search with different stores, against searches for each of them alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tiny
import tiny_store
import torch
from bigrams import EOS, START, WORDS, Bigrams

from npda.decoding.beam import SearchOptions
from npda.decoding.beam import search as search_backbone
from npda.decoding.fusion import Fusion
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.guard import Guard
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.decoding.retry import search_with_retry as retry_backbone
from npda.decoding.routed import RoutedFusion
from npda.models.backbone import Memory

search: Any = search_backbone  # a model of bigrams is a backbone as far as it is needed
search_with_retry: Any = retry_backbone

OPTIONS = SearchOptions(beam=3, max_length=24, n_best=2)
ROUTES = (0, None, 1, 2, 1, 0, None, 2)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    return [tiny_store.store_of(folder / str(seed), [tiny_store.clustered(300, seed=seed)]) for seed in range(3)]


def fusions(stores) -> list[Fusion]:
    """Two guarded ones, which remember what was along every hypothesis, and the paper's."""
    slight, strong = KnnOptions(k=4, lambda_=0.3, temperature=50.0), KnnOptions(k=2, lambda_=0.8, temperature=50.0)
    near, far = Guard(slope=20.0, bias=-0.2), Guard(slope=5.0, bias=0.1)
    return [
        GuardedFusion([GuardedStore(stores[0], strong, near), GuardedStore(stores[1], slight, far)], stores[2]),
        GuardedFusion([GuardedStore(stores[2], strong, far, length_penalty=1.4)], stores[0]),
        KnnFusion(stores[1], strong),
    ]


def hear(model, count: int, seed: int = 0) -> Memory:
    with torch.inference_mode():
        return model.hear(*tiny.speech([60 + 7 * number for number in range(count)], seed))


def alone(memory: Memory, sentence: int) -> Memory:
    length = int(memory.mask[sentence].sum())
    return Memory(memory.states[sentence : sentence + 1, :length], memory.mask[sentence : sentence + 1, :length])


def assert_alike(together, apart) -> None:
    for ours, theirs in zip(together, apart, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.retried for h in ours] == [h.retried for h in theirs]
        assert np.allclose([h.score for h in ours], [h.score for h in theirs], atol=1e-4)
        for h, other in zip(ours, theirs, strict=True):
            assert dict(h.stores) == pytest.approx(dict(other.stores), abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_every_sentence_gets_what_it_gets_alone(model, stores, seed):
    memory = hear(model, len(ROUTES), seed)
    routed = RoutedFusion(fusions(stores), ROUTES)
    together = search_with_retry(model, memory, model.prompt(), OPTIONS, [routed])
    apart = [
        search_with_retry(
            model, alone(memory, sentence), model.prompt(), OPTIONS, [] if route is None else [fusions(stores)[route]]
        )[0]
        for sentence, route in enumerate(ROUTES)
    ]
    assert_alike(together, apart)
    assert any(of_one[0].retried for of_one in together)  # random weights: not all end at the first attempt
    plain = search_with_retry(model, memory, model.prompt(), OPTIONS)
    assert [h[0].tokens for h in together] != [h[0].tokens for h in plain]


def test_one_fusion_for_all_is_that_fusion(model, stores):
    memory = hear(model, 3)
    asked: list[int] = []
    routed = RoutedFusion(fusions(stores), [1, 1, 1], asked.append)
    assert search(model, memory, model.prompt(), OPTIONS, [routed]) == search(
        model, memory, model.prompt(), OPTIONS, [fusions(stores)[1]]
    )
    assert asked[0] == 9  # three sentences with three beams
    assert RoutedFusion(fusions(stores), [None, 0, None]).for_sentences([2, 0]) is None


class Begins:
    """A fusion under which every sentence begins with one word."""

    def __init__(self, word: str) -> None:
        self.token = WORDS.index(word)

    def apply(self, states, log_probs, prefixes, sentences):
        if prefixes.shape[1] > 1:
            return log_probs
        return torch.full_like(log_probs, -50.0).index_fill(1, torch.tensor([self.token]), 0.0)


def words(hypotheses) -> str:
    return "".join(WORDS[token] for token in hypotheses[0].tokens)


def test_sentences_that_are_searched_for_again_keep_their_fusions():
    """The first and the third sentence have no end before they are heard out, as the first and the second then."""
    endless = {"a": {"b": 0.99}, "b": {"a": 0.99}, "d": {"a": 0.99}, "e": {"a": 0.99}}
    ends = {word: {"<eos>": 0.99} for word in "ade"}
    model = Bigrams({"<start>": {"a": 0.9}, **endless}, {"<start>": {"a": 0.9}, **ends})
    memory = model.memory(0, 1, 0, 0, padded=[1, 1, 1, 1])
    routed = RoutedFusion([Begins("d"), Begins("e")], [0, 1, 0, None])
    found = search_with_retry(model, memory, [START], SearchOptions(beam=2, max_length=60), [routed])
    assert [words(of_one) for of_one in found] == ["d", "e", "d", "a"]
    assert [of_one[0].retried for of_one in found] == ["full padding", "", "full padding", "full padding"]


@pytest.mark.parametrize("lengths", [(1, 6), (6, 1)])
def test_a_fusion_forgets_the_search_before_whatever_the_length_of_its_prompt(model, stores, lengths: Sequence[int]):
    memory, fusion = hear(model, 2), fusions(stores)[0]
    for begun in lengths:
        prompt = [*model.prompt(), *range(5, 5 + begun)]
        short = SearchOptions(beam=3, max_length=begun + 3)
        fresh = search(model, memory, prompt, short, [fusions(stores)[0]], begun)
        assert search(model, memory, prompt, short, [fusion], begun) == fresh


@pytest.mark.parametrize("seed", range(3))
def test_greedy_search_goes_on_from_what_was_begun_as_it_went_on_before(model, seed):
    memory = hear(model, 4, seed)
    options = SearchOptions(beam=1, max_length=20, stop_loops=False)
    for sentence, (whole,) in enumerate(search(model, memory, model.prompt(), options)):
        for begun in {1, len(whole.tokens) // 2, len(whole.tokens) - 1} - {0}:
            prompt = [*model.prompt(), *whole.tokens[:begun]]
            ((again,),) = search(model, alone(memory, sentence), prompt, options, begun=begun)
            assert (again.tokens, again.ended) == (whole.tokens, whole.ended)


def test_what_was_begun_may_be_all_of_it():
    """Nothing may be empty, but a whole sentence needs no more words; and what was begun counts as written."""
    model = Bigrams({"<start>": {"<eos>": 0.9}, "a": {"b": 0.9}, "b": {"<eos>": 0.9}})
    word = WORDS.index
    ((found,),) = search_with_retry(
        model, model.memory(0), [START, word("a"), word("b")], SearchOptions(beam=2), begun=2
    )
    assert (words([found]), found.ended, found.retried) == ("ab", True, "")
    assert EOS not in found.tokens
