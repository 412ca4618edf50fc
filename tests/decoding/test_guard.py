"""The guard against plain Python, alone and inside the search."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from brute_force import BruteForce
from hypothesis import given
from hypothesis import strategies as st

from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import KnnOptions, damped
from npda.decoding.knn.fusion import Asked, EndVotes, KnnFusion
from npda.decoding.knn.guard import MEMORY, Guard, RecentNearness, nearness, shares
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.models.backbone import Memory

inf = float("inf")


def test_nearness_is_the_relative_difference_of_distances():
    assert nearness(np.array([1.0, 3.0, 0.0]), np.array([3.0, 1.0, 2.0])).tolist() == [0.5, -0.5, 1.0]


def test_nearness_where_a_side_has_no_key():
    assert nearness(np.array([inf, 2.0, inf, 0.0]), np.array([2.0, inf, inf, 0.0])).tolist() == [-1, 1, 0, 0]


def test_a_single_store_opens_by_a_sigmoid():
    logits = np.array([[-3.0], [0.0], [2.0], [-1000.0], [1000.0]])
    assert np.allclose(shares(logits)[:, 0], [1 / (1 + math.exp(3)), 0.5, 1 / (1 + math.exp(-2)), 0, 1])


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=5))
def test_stores_divide_what_the_nearest_of_them_opens(logits):
    found = shares(np.array([logits]))[0]
    weights = [math.exp(x - max(logits)) for x in logits]
    expected = [w / sum(weights) / (1 + math.exp(-max(logits))) for w in weights]
    assert np.allclose(found, expected)


def test_a_second_store_that_says_the_same_changes_nothing_for_the_model():
    assert np.isclose(shares(np.array([[1.3, 1.3]])).sum(), shares(np.array([[1.3]])).sum())


def evidence_of(path: Sequence[float]) -> float:
    """Along one hypothesis, word for word."""
    total = steps = 0.0
    for r in path:
        total, steps = MEMORY * total + r, MEMORY * steps + 1
    return total / (steps + 1)


@given(st.integers(0, 2**32 - 1))
def test_evidence_follows_every_hypothesis_through_the_beam(seed):
    random = np.random.default_rng(seed)
    evidence, beam, sentences = RecentNearness(2), 3, np.repeat([0, 1, 4], 3)
    prefixes = np.zeros((9, 1), np.int64)
    paths: list[list[np.ndarray]] = [[] for _ in range(9)]
    for step in range(4):
        near = random.uniform(-1, 1, (9, 2)).astype(np.float32)
        if step == 0:
            near = near[[0, 0, 0, 1, 1, 1, 2, 2, 2]]  # beams begin alike
        paths = [[*path, r] for path, r in zip(paths, near, strict=True)]
        found = evidence.add(near, prefixes, sentences)
        expected = [[evidence_of([r[s] for r in path]) for s in range(2)] for path in paths]
        assert np.allclose(found, expected, atol=1e-6)
        parents = random.integers(0, beam, 9) + np.repeat([0, 3, 6], 3)
        paths = [paths[parent] for parent in parents]
        grown = np.arange(9)[:, None] + 10 * step  # hypotheses that differ
        prefixes = np.concatenate([prefixes[parents], grown], axis=1)


def test_evidence_forgets_an_earlier_search():
    evidence, row = RecentNearness(1), np.zeros((1, 2), np.int64)
    evidence.add(np.ones((1, 1)), row[:, :1], np.zeros(1, np.int64))
    evidence.begin()
    assert np.isclose(evidence.add(np.ones((1, 1)), row, np.zeros(1, np.int64)), evidence_of([1.0]))


def test_a_guard_is_checked():
    with pytest.raises(ValueError, match="slope"):
        Guard(-1.0)
    with pytest.raises(ValueError, match="bias"):
        Guard(1.0, math.nan)
    with pytest.raises(ValueError, match="between 0 and 1"):
        EndVotes(2, 1.5)


def test_damped_votes_hand_their_weight_to_the_model():
    weights, values = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0]]), torch.tensor([[7, 2, 2], [2, 2, -1]])
    found, lambda_ = damped(weights, values, torch.tensor([[0.8], [0.5]]), 2, 0.25)
    assert torch.allclose(lambda_, torch.tensor([[0.8 * 0.625], [0.5 * 0.25]]))
    assert torch.allclose(found, torch.tensor([[0.8, 0.12, 0.08], [0.6, 0.4, 0.0]]))
    found, lambda_ = damped(weights, values, torch.tensor([[0.8], [0.5]]), 2, 0.0)
    assert found[1].sum() == 0
    assert lambda_[1] == 0


@pytest.fixture
def two_stores():
    random = np.random.default_rng(5)
    return [BruteForce(random.normal(size=(40, 32)), random.integers(3, 30, 40)) for _ in range(3)]


def test_the_mixture_word_for_word(two_stores):
    """p = Σ w_s·λ_s·p_kNN,s + (1 − Σ w_s·λ_s)·p_model, for two stores, step by step."""
    a, b, counter = two_stores
    options = KnnOptions(4, 0.9, 30.0), KnnOptions(2, 0.5, 10.0)
    guards = Guard(5.0, 0.1), Guard(3.0, -0.1)
    fusion = GuardedFusion(
        [GuardedStore(a, options[0], guards[0]), GuardedStore(b, options[1], guards[1], EndVotes(5, 0.5))], counter
    )
    random = np.random.default_rng(1)
    paths: list[list[float]] = [[], []]
    for step in range(3):
        query = random.normal(size=32).astype(np.float32)
        log_probs = torch.log_softmax(torch.from_numpy(random.normal(size=(1, 30))).float(), dim=1)
        prefix = torch.arange(step + 1)[None]
        state = torch.from_numpy(query)[None]
        found = fusion.apply(state, log_probs.clone(), prefix, torch.zeros(1, dtype=torch.long))[0].exp().numpy()

        near_counter = ((counter.keys - query) ** 2).sum(1).min()
        parts, logits, lambdas = [], [], []
        for place, (store, knn) in enumerate(zip((a, b), options, strict=True)):
            squared = ((store.keys - query) ** 2).sum(1)
            nearest = np.argsort(squared, kind="stable")[: knn.k]
            weights = np.exp(-(squared[nearest] - squared.min()) / knn.temperature)
            weights /= weights.sum()
            if place == 1:
                weights = np.where(store.values[nearest] == 5, 0.5 * weights, weights)
            p = np.zeros(30)
            np.add.at(p, store.values[nearest], weights)
            parts.append(p)
            paths[place].append((near_counter - squared.min()) / (near_counter + squared.min()))
            logits.append(guards[place].slope * (evidence_of(paths[place]) - guards[place].bias))
            lambdas.append(knn.lambda_)
        w = shares(np.array([logits]))[0] * lambdas
        mass = sum(x * p.sum() for x, p in zip(w, parts, strict=True))
        expected = sum(x * p for x, p in zip(w, parts, strict=True)) + (1 - mass) * log_probs[0].exp().numpy()
        assert np.allclose(found, expected, atol=1e-5)


def test_a_closed_gate_leaves_the_search_as_it_is_and_an_open_one_is_the_plain_fusion():
    backbone = tiny.backbone()
    memory = Memory(torch.randn(3, 7, backbone.dim, generator=torch.manual_seed(0)), torch.ones(3, 7, dtype=torch.bool))
    random = np.random.default_rng(2)
    size = len(backbone.target)
    store = BruteForce(random.normal(size=(50, backbone.dim)), random.integers(3, size, 50))
    far = BruteForce(store.keys + 1e4, store.values)
    options, knn = SearchOptions(beam=3, max_length=12), KnnOptions(4, 0.6, 30.0)
    prompt = backbone.prompt()

    def tokens(*fusions):
        return [h[0].tokens for h in search(backbone, memory, prompt, options, fusions)]

    base = tokens()
    assert tokens(GuardedFusion([GuardedStore(far, knn, Guard(1e3))], store)) == base
    plain = tokens(KnnFusion(store, knn))
    assert plain != base
    assert tokens(GuardedFusion([GuardedStore(store, knn, Guard(1e3))], far)) == plain


def test_what_a_sentence_gets_does_not_depend_on_the_others():
    backbone = tiny.backbone()
    memory = Memory(torch.randn(3, 7, backbone.dim, generator=torch.manual_seed(0)), torch.ones(3, 7, dtype=torch.bool))
    random = np.random.default_rng(3)
    store, counter = (
        BruteForce(random.normal(size=(50, backbone.dim)), random.integers(3, len(backbone.target), 50)) for _ in "ab"
    )
    fusion = GuardedFusion([GuardedStore(store, KnnOptions(4, 0.6, 30.0), Guard(5))], counter)
    options = SearchOptions(beam=3, max_length=12)
    together = search(backbone, memory, backbone.prompt(), options, [fusion])
    for row in range(3):
        alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
        assert search(backbone, alone, backbone.prompt(), options, [fusion])[0][0].tokens == together[row][0].tokens


def test_a_search_tells_how_much_each_store_had_to_say():
    """The mean of λ·w along the best hypothesis, asked for again token by token."""
    backbone = tiny.backbone()
    memory = Memory(torch.randn(2, 7, backbone.dim, generator=torch.manual_seed(0)), torch.ones(2, 7, dtype=torch.bool))
    random = np.random.default_rng(3)
    a, b, counter = (
        BruteForce(random.normal(size=(50, backbone.dim)), random.integers(3, len(backbone.target), 50)) for _ in "abc"
    )
    vars(a)["path"], vars(b)["path"] = Path("stores/a"), Path("stores/b")
    fusion = GuardedFusion([GuardedStore(a, KnnOptions(4, 0.6, 30.0)), GuardedStore(b, KnnOptions(4, 0.5))], counter)
    prompt = backbone.prompt()
    for row, (best, *_) in enumerate(search(backbone, memory, prompt, SearchOptions(3, max_length=9), [fusion])):
        produced = [*best.tokens, backbone.target.eos] if best.ended else [*best.tokens]
        one = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
        fed = torch.tensor([[*prompt, *produced[:-1]]])
        with torch.inference_mode():
            states = backbone.states(one, fed)[0, len(prompt) - 1 :]
        again = GuardedFusion(fusion.stores, counter)
        means = np.zeros(2)
        for step, state in enumerate(states):
            asked = Asked(state[None].numpy(), fed[:, : len(prompt) + step].numpy(), np.zeros(1, np.int64))
            said = again.say(state[None], torch.zeros(1, len(backbone.target)).log_softmax(1), asked)
            means += said.opened[0] * [0.6, 0.5] / len(produced)
        assert [name for name, _ in best.stores] == ["a", "b"]
        assert [weight for _, weight in best.stores] == pytest.approx(means.tolist(), abs=1e-4)


def test_a_store_brings_its_length_penalty_as_far_as_it_is_open(two_stores):
    """α + Σ o_s·(α_s − α), o_s the mean over steps of the mean over the sentence's hypotheses; worked out by hand."""
    a, b, counter = two_stores
    own = [GuardedStore(a, KnnOptions(3), length_penalty=1.4), GuardedStore(b, KnnOptions(2))]
    fusion = GuardedFusion(own, counter)
    random, opened = np.random.default_rng(4), {2: [], 5: []}
    for step in range(3):
        states = torch.from_numpy(random.normal(size=(5, 32))).float()
        sentences = np.array([2, 2, 2, 5, 5])
        if step == 2:
            states, sentences = states[3:], sentences[3:]  # the other is decided
        asked = Asked(states.numpy(), random.integers(0, 9, (len(states), step + 1)), sentences)
        said = fusion.say(states, torch.log_softmax(torch.zeros(len(states), 30), 1), asked)
        for sentence, means in opened.items():
            if sentence in sentences:
                means.append(said.opened[sentences == sentence, 0].mean())
        asked_for = torch.from_numpy(np.unique(sentences))
        found = fusion.length_penalties(torch.full((len(asked_for),), 0.6), asked_for)
        expected = [0.6 + np.mean(opened[sentence]) * (1.4 - 0.6) for sentence in asked_for.tolist()]
        assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert 0.05 < np.mean(opened[5]) < 0.95
    plain = GuardedFusion([GuardedStore(a, KnnOptions(3))], counter)
    assert plain.length_penalties(torch.tensor([0.7]), torch.tensor([0])).tolist() == pytest.approx([0.7])


def test_the_say_names_its_stores(two_stores):
    a, b, counter = two_stores
    fusion = GuardedFusion([GuardedStore(a, KnnOptions(3)), GuardedStore(b, KnnOptions(2))], counter)
    state = torch.zeros(2, 32)
    asked = Asked(state.numpy(), np.zeros((2, 1), np.int64), np.array([0, 1]))
    said = fusion.say(state, torch.log_softmax(torch.zeros(2, 30), 1), asked)
    assert said.stores.tolist() == [0, 0, 0, 1, 1]
    assert said.opened.shape == (2, 2)
    assert torch.allclose(said.weights.sum(1), torch.ones(2))
