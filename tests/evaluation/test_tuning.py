"""Tuning against brute force: every point of the grid one by one, every decoded point sentence by sentence."""

import dataclasses
import json
import logging

import numpy as np
import pytest
import soundfile
import tiny_store
import torch
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from npda import audio
from npda.cli.tune import tune as tune_verb
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.pairs import Pair, write_pairs
from npda.datastore.retrieval.caching import CachingRetriever
from npda.datastore.source import Source
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import KnnOptions, interpolate, knn_distribution, knn_weights
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.tuned import load_tuned, load_tuned_record
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.likelihood import Axis, DevNeighbours, Grid, gather, log_likelihoods
from npda.evaluation.tuning.save import save_tuned
from npda.evaluation.tuning.search import (
    Decoded,
    Point,
    best_or_alone,
    climb,
    favourite,
    scored,
    temperature_factor,
    tune,
)
from npda.io.errors import InputError
from npda.report.tuning_plot import plot_tuning

SMALL = Grid(Axis((2, 4, 8)), Axis((0.1, 0.3, 0.5, 0.7, 0.9)), Axis((1.0, 10.0, 50.0)))
SHORT = SearchOptions(beam=2, max_length=24)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def dev() -> list[Pair]:
    return tiny_store.pairs(6, seed=1)


@pytest.fixture(scope="module")
def store(model, dev, tmp_path_factory) -> Datastore:
    """Other sentences, among them the dev sentences' translations under another beginning of their sources."""
    related = [Pair(f"kalt {pair.src_text}", pair.tgt_text) for pair in dev]
    return Datastore.build(model, [*tiny_store.pairs(30), *related], tmp_path_factory.mktemp("store") / "store")


@pytest.fixture(scope="module")
def spoken(dev, tmp_path_factory) -> list[Utterance]:
    directory, random = tmp_path_factory.mktemp("audio"), np.random.default_rng(0)
    utterances = []
    for pair in dev:
        samples = random.normal(scale=0.1, size=int(random.integers(6_000, 12_000)))
        soundfile.write(directory / f"{pair.id}.wav", samples, 16_000)
        frames = audio.frame_count(len(samples))
        utterances.append(Utterance(pair.id, str(directory / f"{pair.id}.wav"), frames, pair.tgt_text, pair.src_text))
    return utterances


@torch.inference_mode()
def memory_alone(model, sentence, way):
    if way == "speech":
        features = torch.from_numpy(model.features(audio.load(sentence.audio)))[None]
        return model.hear(features, torch.tensor([features.shape[1]]))
    source = torch.tensor([model.source.encode(sentence.src_text)])
    return model.read(source, torch.tensor([source.shape[1]]))


@torch.inference_mode()
def translated_alone(model, store, sentences, way, knn: KnnOptions | None) -> float:
    """BLEU of sentences decoded one at a time, asking the store itself."""
    fusions = [KnnFusion(store, knn)] if knn else []
    found = [search(model, memory_alone(model, s, way), model.prompt(), SHORT, fusions)[0][0] for s in sentences]
    return bleu([model.target.decode(h.tokens) for h in found], [s.tgt_text for s in sentences]).value


@pytest.mark.parametrize("way", ["speech", "text"])
@torch.inference_mode()
def test_likelihoods_equal_brute_force_at_all_216_points(model, store, spoken, way):
    states, references = [], []
    for sentence in spoken:
        target = [*model.target.encode(sentence.tgt_text), model.target.eos]
        fed = torch.tensor([[*model.prompt(), *target[:-1]]])
        states.append(model.states(memory_alone(model, sentence, way), fed)[0])
        references += target
    queries, rows = torch.cat(states), torch.arange(len(references))
    log_probs = torch.log_softmax(model.logits(queries), dim=-1).double()
    expected = []
    for point in Grid().points():
        found = store.search(queries.numpy(), point.k)
        weights = knn_weights(torch.from_numpy(found.distances).double(), point.temperature)
        p_knn = knn_distribution(weights, torch.from_numpy(found.values).long(), len(model.target))
        expected.append(float(interpolate(log_probs, p_knn, point.lambda_)[rows, references].mean()))
    evidence = gather(DevSet(model, spoken, way), store, 64)
    assert len(expected) == 216
    np.testing.assert_allclose(log_likelihoods(evidence, Grid()), expected, rtol=1e-4)
    eighth = store.search(queries.numpy(), 8).distances[:, 7]
    assert evidence.scale == pytest.approx(np.quantile(eighth, 0.5, method="lower"), rel=1e-4)


def evidence_of(log_probs, distances, right) -> DevNeighbours:
    return DevNeighbours(torch.tensor(log_probs).double(), torch.tensor(distances).double(), torch.tensor(right))


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 5))
def test_likelihood_is_the_formula_also_where_neighbours_are_missing(seed, positions, k):
    random = np.random.default_rng(seed)
    distances = np.sort(random.exponential(20, (positions, k)), axis=1)
    distances[np.arange(k) >= random.integers(0, k + 1, positions)[:, None]] = np.inf
    right = random.random((positions, k)) < 0.5
    log_probs = -random.exponential(3, positions)
    expected = []
    for point in SMALL.points():
        logs = []
        for p_model, row, hits in zip(np.exp(log_probs), distances[:, : point.k], right[:, : point.k], strict=True):
            weights = np.exp(-row / point.temperature)
            mixed = point.lambda_ * weights[hits].sum() / weights.sum() if weights.sum() else point.lambda_ * p_model
            logs.append(np.log(mixed + (1 - point.lambda_) * p_model))
        expected.append(np.mean(logs))
    found = log_likelihoods(evidence_of(log_probs, distances, right & np.isfinite(distances)), SMALL)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("way", ["speech", "text"])
def test_decoded_points_are_those_of_sentences_alone_and_the_best_is_chosen(model, store, spoken, way):
    tuning = tune(model, store, spoken, way, SHORT, decodes=5, progress=False)
    assert len(tuning.decoded) == 5
    for decoded in tuning.decoded:
        assert decoded.bleu == pytest.approx(translated_alone(model, store, spoken, way, decoded.options), abs=1e-6)
    assert tuning.base_bleu == pytest.approx(translated_alone(model, store, spoken, way, None), abs=1e-6)
    assert tuning.bleu == max(tuning.base_bleu, *(decoded.bleu for decoded in tuning.decoded))
    known = {decoded.options: decoded.bleu for decoded in tuning.decoded}
    assert known.get(tuning.best, tuning.base_bleu) == tuning.bleu
    assert {decoded.options for decoded in tuning.decoded} <= {point.options for point in tuning.points}
    assert json.loads(json.dumps(tuning.record()))["best"]["k"] == tuning.best.k


def test_few_decodes_come_near_the_best_of_the_whole_grid(model, store, dev):
    tuning = tune(model, store, dev, "text", SHORT, decodes=8, grid=SMALL, progress=False)
    options = [p.options for p in tuning.points]
    assert len(options) == 45
    scores = {knn: translated_alone(model, store, dev, "text", knn) for knn in options}
    assert max(scores.values()) > tuning.base_bleu + 20
    assert tuning.bleu >= 0.95 * max(scores.values())


@pytest.mark.parametrize(
    ("scale", "factor"), [(70, 1), (12.5, 1), (800, 1), (12.4, 0.1), (30_000, 300), (0.26, 0.003), (961, 10)]
)
def test_temperatures_follow_distances_that_are_far_from_the_usual(scale, factor):
    assert temperature_factor(scale) == factor
    temperatures = Grid().scaled(factor).temperature.values
    np.testing.assert_allclose(temperatures, np.array([1, 10, 20, 50, 100, 200]) * factor)


def test_scaled_distances_give_the_same_choice(model, store, dev):
    """As if all states were 100 times as long: the temperatures are 10,000 times as high, all else is the same."""

    class Stretched:
        def search(self, queries, k):
            found = store.search(queries, k)
            return dataclasses.replace(found, distances=found.distances * 10_000)

    here = tune(model, store, dev, "text", SHORT, decodes=3, progress=False)
    there = tune(model, Stretched(), dev, "text", SHORT, decodes=3, progress=False)
    assert there.factor == pytest.approx(10_000 * here.factor)
    assert there.scale == pytest.approx(10_000 * here.scale)
    assert there.best.temperature == pytest.approx(10_000 * here.best.temperature)
    assert (there.best.k, there.best.lambda_, there.bleu) == (here.best.k, here.best.lambda_, here.bleu)


def test_a_favourite_at_an_edge_extends_the_grid():
    """The nearest neighbour is always right and the model never: k and T go down, λ up, as far as they may."""
    distances = [[10.0, 10.1, 10.2, 10.3]] * 4
    sure = evidence_of([-9.0] * 4, distances, [[True, False, False, False]] * 4)
    grid, points = scored(sure, Grid(Axis((2, 4), below=(1,)), Grid().lambda_, Axis((1.0,), below=(0.5, 0.1))))
    assert grid.k.values == (1, 2, 4)
    assert grid.lambda_.values[-3:] == (0.9, 0.95, 0.98)
    assert favourite(points).lambda_ == 0.98
    # The furthest of two is right, the model sometimes: T goes up to the end, λ stays inside.
    late = evidence_of([-0.2, -0.2, -9.0], [[1.0, 900.0]] * 3, [[False, True]] * 3)
    grid, points = scored(late, Grid(Axis((2,)), Grid().lambda_, Axis((100.0, 200.0), above=(500.0, 1000.0))))
    assert grid.temperature.values == (100.0, 200.0, 500.0, 1000.0)
    assert grid.lambda_ == Grid().lambda_


def test_the_favourite_is_the_smallest_k_and_t_that_are_as_good():
    scores = {(8, 10.0): -1.02, (8, 50.0): -1.01, (16, 10.0): -1.2, (16, 50.0): -1.0, (4, 10.0): -1.1, (4, 50.0): -1.3}
    points = [Point(KnnOptions(k, 0.5, t), score) for (k, t), score in scores.items()]
    points += [Point(KnnOptions(k, 0.9, t), score - 0.5) for (k, t), score in scores.items()]
    assert favourite(points) == KnnOptions(8, 0.5, 10.0)


def made_up(peak: KnnOptions):
    """A decoder whose BLEU falls with the distance from its peak, and what it was asked."""
    asked: list[KnnOptions] = []

    def decode(options: KnnOptions) -> float:
        assert options not in asked, "decoded twice"
        asked.append(options)
        steps = abs(np.log2(options.k / peak.k)) + abs(np.log10(options.temperature / peak.temperature))
        return 50 - 40 * abs(options.lambda_ - peak.lambda_) - 3 * steps

    return decode, asked


@pytest.mark.parametrize("lambda_", [0.1, 0.3, 0.4, 0.6, 0.9, 0.98, 0.02])
def test_the_climb_finds_a_lambda_that_likelihood_does_not_want(lambda_):
    """Likelihood asks for λ .9 whatever decoding says; eight decodes are enough, edges included."""
    random = np.random.default_rng(0)
    evidence = evidence_of(
        -random.exponential(4, 50), np.sort(random.exponential(20, (50, 64))), random.random((50, 64)) < 0.9
    )
    grid, points = scored(evidence, Grid())
    start = favourite(points)
    assert start.lambda_ >= 0.8
    decode, asked = made_up(dataclasses.replace(start, lambda_=lambda_))
    grid, decoded = climb(evidence, grid, points, decode, 8)
    best = max(decoded, key=lambda d: d.bleu)
    assert len(asked) == len(decoded) <= 8
    assert abs(best.options.lambda_ - lambda_) < 0.09
    assert best.options.lambda_ in grid.lambda_.values
    decode, asked = made_up(dataclasses.replace(start, lambda_=lambda_))
    assert climb(evidence, grid, points, decode, 1)[1][0].options == start
    decode, asked = made_up(dataclasses.replace(start, lambda_=lambda_))
    climb(evidence, grid, points, decode, 500)
    assert len(asked) < 30  # it stops at a peak, whatever it may spend


class Counting:
    def __init__(self, store) -> None:
        self.store, self.asked = store, 0

    def search(self, queries, k):
        self.asked += len(queries)
        return self.store.search(queries, k)


def test_a_remembering_retriever_answers_as_the_store_and_asks_once(store):
    random = np.random.default_rng(0)
    queries = random.normal(size=(20, store.dim)).astype(np.float32)
    counting = Counting(store)
    remembering = CachingRetriever(counting, depth=8)
    for k in (8, 3, 8):
        jittered = queries * (1 + 1e-7)
        found, expected = remembering.search(jittered[::-1], k), store.search(jittered[::-1], k)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-5)
    assert counting.asked == 20
    remembering.search(np.concatenate([queries[:5], queries[:5] + 1.0]), 4)
    assert counting.asked == 25
    assert (remembering.asked, remembering.known) == (70, 45)
    np.testing.assert_array_equal(remembering.search(queries, 12).ids, store.search(queries, 12).ids)
    assert remembering.share_known == 45 / 90


def test_a_remembering_retriever_without_room_forgets(store, monkeypatch):
    monkeypatch.setattr("npda.datastore.retrieval.caching._BYTES", 16 * 4 * 30)
    queries = np.random.default_rng(0).normal(size=(60, store.dim)).astype(np.float32)
    counting = Counting(store)
    remembering = CachingRetriever(counting, depth=4)
    for asked, start in ((20, 0), (40, 20), (60, 40), (60, 40), (80, 0)):
        some = queries[start : start + 20]
        np.testing.assert_array_equal(remembering.search(some, 4).ids, store.search(some, 4).ids)
        assert counting.asked == asked


def test_dev_sentences_that_are_in_the_store_are_refused(model, tmp_path):
    pairs = tiny_store.pairs(10)
    store = Datastore.build(model, pairs, tmp_path / "store")
    with pytest.raises(InputError, match="knows most of the 4 dev sentences"):
        tune(model, store, pairs[:4], "text", SHORT, progress=False)
    with pytest.raises(InputError, match="no keys"):
        tune(model, store.remove("pairs"), pairs[:4], "text", SHORT, progress=False)


def test_a_store_that_only_hurts_is_left_out():
    """The model knows half of the tokens, the only neighbour none (or all): at equal BLEU the likelier one wins."""
    low, high = KnnOptions(4, 0.1, 10.0), KnnOptions(4, 0.9, 10.0)
    wrong = evidence_of([-0.7, -0.7], [[5.0], [5.0]], [[False], [False]])
    right = evidence_of([-0.7, -0.7], [[5.0], [5.0]], [[True], [True]])
    decoded = [Decoded(high, 20.0), Decoded(low, 25.0), Decoded(KnnOptions(8, 0.1, 10.0), 24.0)]
    assert best_or_alone(wrong, decoded, base=25.1) == Decoded(dataclasses.replace(low, lambda_=0.0), 25.1)
    assert best_or_alone(wrong, decoded, base=25.0).options.lambda_ == 0
    assert best_or_alone(right, decoded, base=25.0) == Decoded(low, 25.0)
    assert best_or_alone(right, [*decoded, Decoded(high, 25.0)], base=0.0) == Decoded(high, 25.0)


def test_the_choice_is_kept_in_the_store(model, dev, tmp_path, caplog):
    store = Datastore.build(model, tiny_store.pairs(20), tmp_path / "store")
    assert load_tuned(store) is None
    tuning = tune(model, store, dev, "text", SHORT, decodes=1, progress=False)
    kept = save_tuned(store, tuning)
    assert load_tuned(kept) == load_tuned(Datastore.open(store.path, model)) == tuning.best
    assert kept.info.distance_scale == tuning.scale
    assert kept.digest == store.digest
    with caplog.at_level(logging.WARNING):
        grown = kept.append(model, Source("more", tiny_store.pairs(3, seed=5)))
        assert load_tuned(grown) == tuning.best
    assert "changed since it was tuned" in caplog.text
    file = store.path / "knn.json"
    earlier = json.loads(file.read_text())  # of a version that knew neither chrF nor votes for the end
    for name in ("chrf", "base_chrf", "end_weight"):
        earlier.pop(name)
    file.write_text(json.dumps(earlier))
    record = load_tuned_record(kept)
    assert record is not None
    assert (record.options, record.length_penalty, record.end_weight, record.chrf) == (tuning.best, 0.6, 1.0, None)
    for content in (b"{", b'{"k": 0}', file.read_bytes().replace(b'"lambda": 0', b'"lambda": 7')):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"knn\.json.*`npda tune` again"):
            load_tuned(store)


def test_the_map_is_a_picture(model, store, dev, tmp_path):
    tuning = tune(model, store, dev, "text", SHORT, decodes=2, progress=False)
    plot_tuning(tuning, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert set(tuning.plane(tuning.best.k).values()) <= {point.log_likelihood for point in tuning.points}


app = typer.Typer()
app.command()(tune_verb)


def npda_tune(*arguments: object) -> str:
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.fixture(scope="module")
def directory(model, store, dev, spoken, tmp_path_factory):
    """What a user has: a model, a store, dev.tsv of text and of speech."""
    directory = tmp_path_factory.mktemp("work")
    model.save_pretrained(directory / "model")
    write_pairs(directory / "text.tsv", dev)
    write_manifest(directory / "speech.tsv", spoken)
    return directory


def test_npda_tune_with_text_and_with_speech(directory, store, model, dev):
    common = ("--model", directory / "model", "--store", store.path, "--beam", 2, "--max-length", 24, "--decodes", 3)
    answer = json.loads(npda_tune(*common, "--text", directory / "text.tsv", "--json"))
    here = tune(model, store, dev, "text", SHORT, decodes=3, progress=False).record()
    assert {k: v for k, v in answer.items() if k != "seconds"} == {k: v for k, v in here.items() if k != "seconds"}
    tuned = load_tuned(store)
    assert tuned is not None
    assert answer["best"] == {"k": tuned.k, "lambda": tuned.lambda_, "temperature": tuned.temperature}
    shown = npda_tune(*common, "--speech", directory / "speech.tsv", "--plot", directory / "map.png")
    for words in ("log-likelihood a token", "6 dev sentences (speech)", "best: k", "dev BLEU: ", "•"):
        assert words in shown
    assert (directory / "map.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "either --speech"),
        (("--text", "a.tsv", "--speech", "b.tsv"), "either --speech"),
        (("--text", "a.tsv", "--plot", "map.svg"), "map.png"),
        (("--text", "none.tsv"), "none.tsv cannot be read"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_opened(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        npda_tune("--model", tmp_path / "no-model", "--store", tmp_path / "no-store", *options)
