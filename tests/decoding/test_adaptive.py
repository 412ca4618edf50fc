"""The learned combiner against its formula in plain Python, its training against what must come out."""

import json
import math

import numpy as np
import pytest
import soundfile
import tiny
import tiny_store
import torch
import typer
from hypothesis import given
from hypothesis import strategies as st
from tiny_observations import made_up
from typer.testing import CliRunner

from npda.cli.explain import explain as explain_verb
from npda.cli.translate import translate
from npda.cli.tune import tune
from npda.corpus.pairs import Pair, write_pairs
from npda.datastore.retrieval.protocol import Neighbours
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.adaptive import (
    SETTINGS,
    WEIGHTS,
    AdaptiveCombiner,
    AdaptiveOptions,
    distinct,
    load_adaptive,
    save_adaptive,
)
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.tuned import load_learned, load_tuned
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.adaptive import learn_combiner, observe
from npda.evaluation.tuning.fitting import FitOptions, fit
from npda.evaluation.tuning.folds import LearnedTuning
from npda.explanation.explain import explain
from npda.io.errors import InputError
from npda.io.sealed import read_sealed
from npda.translator import Translator


def combiner_of(k: int, seed: int, temperature: float = 5.0, scale: float = 3.0) -> AdaptiveCombiner:
    torch.manual_seed(seed)
    combiner = AdaptiveCombiner(AdaptiveOptions(k, temperature, scale))
    with torch.no_grad():
        for parameter in combiner.parameters():
            parameter.mul_(4)  # opinions that differ
    return combiner.eval()


def reference(combiner: AdaptiveCombiner, distances, values, p_model) -> np.ndarray:
    """Σ p(k) · p_kNN(k), k by k and neighbour by neighbour, for one query. distances, values: [k]"""
    options = combiner.options
    different = [len({v for v in values[: n + 1] if v >= 0}) for n in range(options.k)]
    shown = [min(d / options.scale, 20.0) for d in distances] + [d / options.k for d in different]
    weight, bias, out_weight, out_bias = (parameter.detach().numpy() for parameter in combiner.parameters())
    logits = out_weight @ np.tanh(weight @ np.array(shown) + bias) + out_bias
    trust = np.exp(logits - logits.max())
    trust /= trust.sum()
    p = trust[0] * np.array(p_model)
    k, place = 1, 1
    while k <= options.k:
        p_knn = np.zeros(len(p_model))
        for distance, value in zip(distances[:k], values[:k], strict=True):
            if value >= 0:
                p_knn[value] += np.exp(-(distance - distances[0]) / options.temperature)
        p += trust[place] * p_knn / p_knn.sum()
        k, place = 2 * k, place + 1
    return p


class Told:
    """A retriever that answers what it was told."""

    def __init__(self, distances, values) -> None:
        self.found = distances, values

    def search(self, queries, k):
        distances, values = self.found
        return Neighbours(distances[:, :k], values[:, :k], np.where(values < 0, -1, np.arange(values.shape[1])))


@given(st.sampled_from([1, 2, 8]), st.integers(0, 40))
def test_the_mixture_is_the_sum_over_k(k, seed):
    random = np.random.default_rng(seed)
    distances = np.sort(random.uniform(0, 30, (4, k)), axis=1).astype(np.float32)
    values = random.integers(0, 6, (4, k)).astype(np.int32)
    distances[3, 1 + k // 2 :], values[3, 1 + k // 2 :] = np.inf, -1
    log_probs = torch.log_softmax(torch.from_numpy(random.normal(size=(4, 6))), dim=-1)
    combiner = combiner_of(k, seed)
    mixed = KnnFusion(Told(distances, values), combiner).apply(
        torch.randn(4, 2), log_probs, torch.empty(4, 1), torch.arange(4)
    )
    for row in range(4):
        expected = reference(combiner, distances[row], values[row], log_probs[row].exp().numpy())
        np.testing.assert_allclose(mixed[row].exp(), expected, atol=1e-5)


def test_nobody_found_is_the_model_alone():
    log_probs = torch.log_softmax(torch.randn(2, 5), dim=-1)
    found = np.full((2, 4), np.inf, np.float32), np.full((2, 4), -1, np.int32)
    mixed = KnnFusion(Told(*found), combiner_of(4, 0)).apply(
        torch.zeros(2, 2), log_probs, torch.empty(2, 1), torch.arange(2)
    )
    assert torch.equal(mixed, log_probs)


def test_an_explanation_has_the_probabilities_of_the_formula(model, tmp_path):
    store = Datastore.build(model, tiny_store.pairs(30), tmp_path / "store")
    combiner, options = combiner_of(4, 6, temperature=20.0, scale=20.0), SearchOptions(beam=2, max_length=10)
    with torch.inference_mode():
        memory = model.hear(*tiny.speech([70]))
        e = explain(model, memory, KnnFusion(store, combiner), options)
        ((found,),) = search(model, memory, model.prompt(), options, [KnnFusion(store, combiner)])
        produced = [token.token for token in e.tokens]
        states = model.states(memory, torch.tensor([[*model.prompt(), *produced[:-1]]]))[0, len(model.prompt()) - 1 :]
        p_model = model.logits(states).double().softmax(dim=-1).numpy()
    neighbours = store.search(states.numpy(), 4)
    for row, token in enumerate(e.tokens):
        expected = reference(combiner, neighbours.distances[row], neighbours.values[row], p_model[row])
        assert token.p == pytest.approx(expected[token.token], abs=1e-4)
        assert token.p == pytest.approx(token.lambda_ * token.p_knn + (1 - token.lambda_) * token.p_model, abs=1e-5)
        assert sum(neighbour.weight for neighbour in token.neighbours) == pytest.approx(1, abs=1e-5)
    lambdas = [token.lambda_ for token in e.tokens]
    assert max(lambdas) - min(lambdas) > 0.1
    assert sum(math.log(token.p) for token in e.tokens) == pytest.approx(found.log_prob, abs=1e-4)
    assert e.signature == f"k:≤4|λ:adaptive|T:20|beam:2|store:{store.digest[:8]}"


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=9))
def test_distinct_counts_different_tokens(values):
    expected = [len({v for v in values[: n + 1] if v >= 0}) for n in range(len(values))]
    assert distinct(torch.tensor([values]))[0].tolist() == expected


def test_training_finds_whom_to_believe():
    observed = made_up()
    combiner, found = learn_combiner(observed, temperature=10.0)
    _, lambda_ = combiner.weigh(observed.distances, observed.values)
    near = observed.right[:, 0]
    assert lambda_[near].min() > 0.9
    assert lambda_[~near].max() < 0.1
    everything = torch.arange(len(near))
    learned = -observed.mixture(combiner.weigh, everything).log().mean()
    fixed = [-observed.mixture(KnnOptions(4, x / 10, 10.0).weigh, everything).log().mean() for x in range(1, 10)]
    assert learned < 0.5 * min(fixed)
    assert found.losses[found.best] == min(found.losses) < 0.5 * found.losses[0]


def test_training_again_gives_the_same_network():
    first, second = (learn_combiner(made_up(), 10.0, FitOptions(epochs=3))[0] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_the_best_weights_are_kept_and_sentences_are_not_torn():
    """A parameter that is good at 1 and driven beyond it: where the held-out loss turns, training ends."""
    weight = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(weight.weight)
    sentences, judged, learned = torch.arange(40) // 4, set(), set()

    def loss(positions):
        # Positions come in whole sentences when judged; those learned from pull further than the judged ones want.
        if torch.is_grad_enabled():
            learned.update((positions // 4).tolist())
            return (weight.weight[0] - 3).square().expand(len(positions))
        judged.update((positions // 4).tolist())
        assert len(positions) == 4 * len(set((positions // 4).tolist()))
        return (weight.weight[0] - 1).square().expand(len(positions))

    found = fit(weight, loss, sentences, FitOptions(rate=0.1, batch=8, held_out=0.3, patience=3))
    assert (len(judged), len(learned), len(judged | learned)) == (3, 7, 10)
    assert found.best == len(found.losses) - 1 - 3
    assert weight.weight.item() == pytest.approx(1.0, abs=0.2)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def store(model, tmp_path_factory) -> Datastore:
    dev = tiny_store.pairs(6, seed=1)
    related = [Pair(f"kalt {pair.src_text}", pair.tgt_text) for pair in dev]
    return Datastore.build(model, [*tiny_store.pairs(30), *related], tmp_path_factory.mktemp("store") / "store")


def test_observed_mixture_is_what_the_fusion_gives(model, store):
    devset = DevSet(model, tiny_store.pairs(6, seed=1), "text")
    observed = observe(devset, store, 8)
    combiner = combiner_of(8, 1)
    seen = {}
    for batch in devset.batches:
        for place, states in zip(batch.places, devset.states(batch, devset.memory(batch)), strict=True):
            with torch.inference_mode():
                log_probs = torch.log_softmax(model.logits(states), dim=-1)
                mixed = KnnFusion(store, combiner).apply(states, log_probs, states[:, :1], states[:, 0])
            target = torch.tensor(devset.examples[place].target)
            seen[place] = mixed[torch.arange(len(target)), target].exp()
    found = observed.mixture(combiner.weigh, torch.arange(len(observed.p_model)))
    for place, expected in seen.items():
        torch.testing.assert_close(found[observed.sentences == place], expected, rtol=1e-4, atol=1e-6)
    learned, fitted = learn_combiner(observed, 10.0, FitOptions(epochs=5))
    assert (learned.k, len(fitted.losses)) == (8, 6)


def test_saved_and_loaded_it_says_the_same(tmp_path):
    combiner = combiner_of(8, 3)
    save_adaptive(tmp_path, combiner, "digest")
    loaded, store = load_adaptive(tmp_path)
    assert (loaded.options, store) == (combiner.options, "digest")
    distances, values = torch.rand(5, 8).cumsum(dim=1), torch.randint(0, 9, (5, 8))
    for ours, theirs in zip(loaded.weigh(distances, values), combiner.weigh(distances, values), strict=True):
        assert torch.equal(ours, theirs)


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(InputError, match="npda tune --adaptive"):
        load_adaptive(tmp_path)
    save_adaptive(tmp_path, combiner_of(4, 0), "digest")
    settings = json.dumps(read_sealed(tmp_path / SETTINGS))
    for wrong, name in (('"k": 3', "power of two"), ('"k": 8', "does not hold"), ('"k": 0', "k: "), ("no", SETTINGS)):
        (tmp_path / SETTINGS).write_text(settings.replace('"k": 4', wrong) if wrong != "no" else wrong)
        with pytest.raises(InputError, match=name):
            load_adaptive(tmp_path)
    (tmp_path / SETTINGS).write_text(settings)
    content = bytearray((tmp_path / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(InputError, match=WEIGHTS):
        load_adaptive(tmp_path)


def test_the_verbs_train_keep_and_use_a_combiner(model, tmp_path, monkeypatch):
    app = typer.Typer()
    app.command()(tune)
    app.command()(translate)
    app.command()(explain_verb)

    def npda(*arguments: object) -> str:
        answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    model.save_pretrained(tmp_path / "model")
    dev = tiny_store.pairs(6, seed=1)
    related = [Pair(f"kalt {pair.src_text}", pair.tgt_text) for pair in dev]
    store = Datastore.build(model, [*tiny_store.pairs(30), *related], tmp_path / "store")
    write_pairs(tmp_path / "dev.tsv", dev)
    shared = ("--model", tmp_path / "model", "--store", store.path)
    training = ("tune", *shared, "--text", tmp_path / "dev.tsv", "--decodes", 1, "--max-length", 20, "--adaptive")
    monkeypatch.setattr(LearnedTuning, "wins", True)
    found = json.loads(npda(*training, "--json"))
    assert found["adaptive"]["kept"]
    learned = load_learned(store)
    assert found["adaptive"]["k"] == learned.k >= found["best"]["k"]
    assert found["adaptive"]["temperature"] == learned.options.temperature == found["best"]["temperature"]

    soundfile.write(tmp_path / "a.wav", np.random.default_rng(0).normal(scale=0.1, size=8_000), 16_000)
    monkeypatch.setattr("npda.translator.best_detector", None)  # noise is translated, too
    fusion = Translator(model).neighbours([store], learned)
    (expected,) = Translator(model).translate_all(
        [str(tmp_path / "a.wav")], SearchOptions(max_length=20), None, [fusion]
    )
    said = npda("translate", tmp_path / "a.wav", *shared, "--adaptive", "--max-length", 20)
    assert said.strip() == str(expected).strip()
    why = json.loads(npda("explain", tmp_path / "a.wav", *shared, "--adaptive", "--max-length", 20, "--json"))
    assert why["text"] == said.strip()
    assert why["signature"].startswith(f"k:≤{learned.k}|λ:adaptive|")
    for verb in ("translate", "explain"):
        with pytest.raises(InputError, match="chooses k"):
            npda(verb, tmp_path / "a.wav", *shared, "--adaptive", "--k", 4)
    with pytest.raises(InputError, match="needs a --store"):
        npda("translate", tmp_path / "a.wav", "--model", tmp_path / "model", "--adaptive")

    monkeypatch.setattr(LearnedTuning, "wins", False)  # an earlier one must not stay behind
    assert "not kept, as it is not better" in npda(*training)
    with pytest.raises(InputError, match="train a combiner"):
        npda("translate", tmp_path / "a.wav", *shared, "--adaptive")
    assert load_tuned(store) is not None
