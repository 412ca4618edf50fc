"""The paper's formulas against plain NumPy, alone and inside the search."""

import numpy as np
import pytest
import tiny
import torch
from brute_force import BruteForce
from hypothesis import given
from hypothesis import strategies as st

from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import (
    KnnOptions,
    Retrieved,
    interpolate,
    knn_distribution,
    knn_weights,
    mixed,
)
from npda.decoding.knn.fusion import KnnFusion
from npda.models.backbone import Memory


def reference_mixture(query, log_probs, keys, values, options: KnnOptions) -> np.ndarray:
    """Eq. 2 and 5, word for word: one query [dim], one distribution [vocabulary]."""
    squared = ((keys.astype(np.float64) - query) ** 2).sum(1)
    nearest = np.argsort(squared, kind="stable")[: options.k]
    p_knn = np.zeros(len(log_probs))
    for i in nearest:
        p_knn[values[i]] += np.exp(-squared[i] / options.temperature)
    p_knn /= p_knn.sum()
    return options.lambda_ * p_knn + (1 - options.lambda_) * np.exp(log_probs)


def random_store(model, size=60, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    keys = (scale * rng.normal(size=(size, model.dim))).astype(np.float16)
    return keys, rng.integers(4, len(model.target), size)


@given(
    st.integers(1, 12), st.sampled_from([0.1, 0.5, 0.9, 1.0]), st.sampled_from([1.0, 10.0, 200.0]), st.integers(0, 9)
)
def test_mixture_equals_the_formula(k, lambda_, temperature, seed):
    rng = np.random.default_rng(seed)
    keys, values = rng.normal(size=(20, 4)), rng.integers(0, 6, 20)
    queries = rng.normal(size=(3, 4)).astype(np.float32)
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(size=(3, 6))), dim=-1)
    options = KnnOptions(k, lambda_, temperature)
    mixed = KnnFusion(BruteForce(keys, values), options).apply(
        torch.from_numpy(queries), log_probs, torch.empty(3, 1), torch.arange(3)
    )
    expected = [reference_mixture(q, p, keys, values, options) for q, p in zip(queries, log_probs.numpy(), strict=True)]
    np.testing.assert_allclose(mixed.exp().numpy(), expected, atol=1e-6)


def test_missing_neighbours_weigh_nothing():
    distances = torch.tensor([[1.0, 2.0, torch.inf], [torch.inf] * 3])
    weights = knn_weights(distances, temperature=1.0)
    np.testing.assert_allclose(weights[0], [1 / (1 + np.exp(-1)), np.exp(-1) / (1 + np.exp(-1)), 0], rtol=1e-6)
    p_knn = knn_distribution(weights, torch.tensor([[2, 2, -1], [-1, -1, -1]]), vocabulary=4)
    np.testing.assert_allclose(p_knn, [[0, 0, 1, 0], [0, 0, 0, 0]], atol=1e-7)
    log_probs = torch.full((2, 4), 0.25).log()
    np.testing.assert_allclose(
        interpolate(log_probs, p_knn, 0.6).exp(), [[0.1, 0.1, 0.7, 0.1], [0.25] * 4], rtol=1e-6
    )  # nobody found: the model alone


@given(st.integers(1, 9), st.sampled_from([0.3, 1.0, "by row"]), st.integers(0, 30))
def test_mixing_k_tokens_is_mixing_all(k, lambda_, seed):
    random = torch.Generator().manual_seed(seed)
    log_probs = torch.log_softmax(9 * torch.randn(5, 7, generator=random), dim=-1)
    distances = 20 * torch.rand(5, k, generator=random)
    distances[3, k // 2 :] = torch.inf
    distances[4] = torch.inf
    values = torch.where(distances.isinf(), -1, torch.randint(0, 7, (5, k), generator=random))
    weights = knn_weights(distances, 10.0)
    share = torch.rand(5, 1, generator=random) if lambda_ == "by row" else float(lambda_)
    ours = mixed(log_probs, weights, values, share)
    dense = interpolate(log_probs, knn_distribution(weights, values, 7), share)
    np.testing.assert_allclose(ours, dense, rtol=1e-5, atol=1e-6)
    assert torch.equal(ours[4], log_probs[4])


def test_beams_that_are_alike_are_searched_for_once():
    rng = np.random.default_rng(0)
    keys, values, states = rng.normal(size=(20, 4)), rng.integers(0, 6, 20), torch.randn(3, 4)
    asked: list[int] = []

    class Noting(BruteForce):
        def search(self, queries, k):
            asked.append(len(queries))
            return super().search(queries, k)

    fusion, rows = KnnFusion(Noting(keys, values), KnnOptions(4)), torch.tensor([0, 0, 1, 2, 2, 2, 0])
    log_probs = torch.log_softmax(torch.randn(7, 6), dim=-1)
    together = fusion.apply(states[rows], log_probs, torch.empty(7, 1), torch.zeros(7))
    assert asked == [4]
    alone = [
        fusion.apply(states[rows[i : i + 1]], log_probs[i : i + 1], torch.empty(1, 1), torch.zeros(1)) for i in range(7)
    ]
    torch.testing.assert_close(together, torch.cat(alone))


class Kernel:
    """A combiner of one's own: a kernel whose width depends on the query, λ from the model's view of the tokens.

    keys: [size, dim]
    """

    k = 4
    is_inactive = False

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = torch.from_numpy(keys)

    def __str__(self) -> str:
        return "kernel"

    def combine(self, found: Retrieved):
        gaps = (self.keys[found.ids] - found.states.double()[:, None]).abs().sum(dim=2)  # not what was searched by
        weights = torch.softmax(-gaps / found.states.double().norm(dim=1, keepdim=True), dim=1)
        agreed = found.log_probs.gather(1, found.values).exp()
        return weights, (weights * agreed).sum(dim=1, keepdim=True)


def test_a_combiner_of_ones_own_sees_states_keys_and_the_model():
    """Also where rows are alike and searched for once; against the same formula in NumPy, row by row."""
    rng = np.random.default_rng(0)
    keys, values = rng.normal(size=(20, 4)), rng.integers(0, 6, 20)
    states = torch.from_numpy(rng.normal(size=(3, 4)).astype(np.float32))[[0, 0, 1, 2]]
    log_probs = torch.log_softmax(torch.from_numpy(rng.normal(size=(4, 6))), dim=-1)
    fusion = KnnFusion(BruteForce(keys, values), Kernel(keys))
    ours = fusion.apply(states, log_probs, torch.empty(4, 1), torch.zeros(4)).exp().numpy()
    for row, (state, p_model) in enumerate(zip(states.numpy().astype(float), log_probs.exp().numpy(), strict=True)):
        nearest = np.argsort(((keys - state) ** 2).sum(axis=1), kind="stable")[:4]
        weights = np.exp(-np.abs(keys[nearest] - state).sum(axis=1) / np.sqrt((state**2).sum()))
        weights /= weights.sum()
        lambda_ = sum(w * p_model[values[i]] for w, i in zip(weights, nearest, strict=True))
        expected = (1 - lambda_) * p_model
        for w, i in zip(weights, nearest, strict=True):
            expected[values[i]] += lambda_ * w
        np.testing.assert_allclose(ours[row], expected, rtol=1e-6)


def reference_search(model, memory: Memory, keys, values, knn: KnnOptions, options: SearchOptions) -> list[int]:
    """Beam search with lists over prefixes decoded anew, the mixture computed in NumPy."""
    live, finished = [(0.0, list(model.prompt()))], []
    start = len(live[0][1])
    for length in range(1, options.max_length + 1):
        candidates = []
        for total, prefix in live:
            state = model.states(memory, torch.tensor([prefix]))[0, -1]
            log_probs = torch.log_softmax(model.logits(state), dim=-1).numpy()
            mixture = reference_mixture(state.numpy(), log_probs, keys, values, knn)
            mixture[model.target.eos] *= length > 1  # no translation is empty
            candidates += [(total + np.log(p), [*prefix, token]) for token, p in enumerate(mixture) if p > 0]
        candidates = sorted(candidates, reverse=True)[: 2 * options.beam]
        for total, tokens in candidates[: options.beam]:
            ends = tokens[-1] == model.target.eos
            if ends or length == options.max_length:
                finished.append((total / length**options.length_penalty, tokens[start : -1 if ends else None]))
        finished = sorted(finished, reverse=True)[: options.beam]
        live = [c for c in candidates if c[1][-1] != model.target.eos][: options.beam]
        full = len(finished) == options.beam
        if full and (options.beam == 1 or live[0][0] / length**options.length_penalty <= finished[-1][0]):
            break
    return finished[0][1]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("batch", [1, 8])
def test_search_with_neighbours_equals_the_reference(beam, batch):
    model = tiny.backbone(5)
    features, lengths = tiny.speech([40 + 7 * i for i in range(batch)])
    keys, values = random_store(model)
    knn, options = KnnOptions(k=8, lambda_=0.6, temperature=10.0), SearchOptions(beam, max_length=10, stop_loops=False)
    with torch.inference_mode():
        memory = model.hear(features, lengths)
        ours = search(model, memory, model.prompt(), options, [KnnFusion(BruteForce(keys, values), knn)])
        for row in range(batch):
            alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
            expected = reference_search(model, alone, keys, values, knn, options)
            assert list(ours[row][0].tokens) == expected


@pytest.mark.parametrize("beam", [1, 5])
def test_lambda_zero_is_the_base_model_bit_for_bit(beam):
    model = tiny.backbone(1)
    features, lengths = tiny.speech([60, 80, 45])
    options = SearchOptions(beam=beam, max_length=20)
    with torch.inference_mode():
        memory = model.hear(features, lengths)
    fusion = KnnFusion(BruteForce(*random_store(model)), KnnOptions(lambda_=0.0))
    assert search(model, memory, [2], options, [fusion]) == search(model, memory, [2], options)


@pytest.mark.parametrize("beam", [1, 5])
def test_a_store_of_the_sentence_itself_reproduces_its_reference(beam):
    """Keys are the decoder states along the reference; with λ near 1 the search walks along them."""
    model = tiny.backbone(2)
    features, lengths = tiny.speech([60, 90])
    references = [model.target.encode(text) for text in tiny.SENTENCES[2:4]]
    keys, values = [], []
    with torch.inference_mode():
        memory = model.hear(features, lengths)
        for row, reference in enumerate(references):
            tokens = [*model.prompt(), *reference, model.target.eos]
            alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
            keys.append(model.states(alone, torch.tensor([tokens[:-1]]))[0])
            values += tokens[1:]
        store = BruteForce(torch.cat(keys).numpy(), np.array(values))
        fusion = KnnFusion(store, KnnOptions(k=4, lambda_=0.999, temperature=0.1))
        found = search(model, memory, model.prompt(), SearchOptions(beam=beam), [fusion])
    assert [list(hypotheses[0].tokens) for hypotheses in found] == references


@pytest.mark.parametrize("wrong", [dict(k=0), dict(lambda_=1.5), dict(temperature=0.0)])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must|lie"):
        KnnOptions(**wrong)
