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
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions, interpolate, knn_distribution, knn_weights
from npda.decoding.knn.fusion import EndVotes, KnnFusion
from npda.decoding.knn.tuned import load_tuned, load_tuned_record
from npda.decoding.retry import search_with_retry
from npda.evaluation.devset import DevSet
from npda.evaluation.faults import Faults, StoreText
from npda.evaluation.tuning.climb import Climb, Point, Space, favourite
from npda.evaluation.tuning.likelihood import Axis, DevNeighbours, Grid, gather, log_likelihoods
from npda.evaluation.tuning.objective import Outcome, Setting, smoothed
from npda.evaluation.tuning.save import save_tuned
from npda.evaluation.tuning.search import scored, temperature_factor, tune
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
def translated_alone(model, store, sentences, way, setting: Setting | None) -> Outcome:
    """What sentences decoded one at a time are worth, asking the store itself."""
    end_votes = EndVotes(model.target.eos, setting.end_weight) if setting else None
    fusions = [KnnFusion(store, setting.knn, end_votes)] if setting else []
    options = dataclasses.replace(SHORT, length_penalty=setting.length_penalty) if setting else SHORT
    memories = [memory_alone(model, sentence, way) for sentence in sentences]
    found = [search_with_retry(model, m, model.prompt(), options, fusions)[0][0] for m in memories]
    texts, references = [model.target.decode(h.tokens) for h in found], [s.tgt_text for s in sentences]
    return Outcome.of(texts, references, StoreText.of(store))


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
def test_decoded_settings_are_those_of_sentences_alone(model, store, spoken, way):
    space = Space(length_penalties=(0.2, 1.4), end_weights=(0.5, 0.0))
    tuning = tune(model, store, spoken, way, SHORT, 12, space, progress=False)
    assert len(tuning.decoded) == 12
    assert {d.setting.length_penalty for d in tuning.decoded} > {0.6}
    assert {d.setting.end_weight for d in tuning.decoded} > {1.0}
    for decoded in tuning.decoded:
        assert decoded.outcome == translated_alone(model, store, spoken, way, decoded.setting)
    assert tuning.base == translated_alone(model, store, spoken, way, None)
    known = {decoded.setting: decoded.outcome for decoded in tuning.decoded}
    assert known.get(tuning.setting, tuning.base) == tuning.outcome
    assert {decoded.options for decoded in tuning.decoded} <= {point.options for point in tuning.points}
    assert json.loads(json.dumps(tuning.record()))["best"]["k"] == tuning.best.k
    assert tuning.tuned_search == dataclasses.replace(SHORT, length_penalty=tuning.length_penalty)


def test_few_decodes_come_near_the_best_of_the_whole_grid(model, store, dev):
    class Unwritten:  # a store whose sentences are not known, so that none can be called invented
        search = staticmethod(store.search)

    tuning = tune(model, Unwritten(), dev, "text", SHORT, 8, Space(SMALL), progress=False)
    options = [p.options for p in tuning.points]
    assert len(options) == 45
    scores = [translated_alone(model, store, dev, "text", Setting(knn)).mean for knn in options]
    assert max(scores) > tuning.base.mean + 20
    assert tuning.outcome.mean >= 0.95 * max(scores)


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


def outcome(bleu: float = 30.0, chrf: float = 50.0, **faults: int) -> Outcome:
    """Of a hundred sentences of ten words; the inventions are the first of them."""
    counts = {"words": 1000, "cut_short": 0, "empty": 0, "looping": 0, "invented": 0} | faults
    return Outcome(bleu, chrf, Faults(n=100, reference_words=1000, **counts), frozenset(range(counts["invented"])))


def test_bounds_by_hand():
    base = outcome(cut_short=4, looping=1, words=960)
    assert outcome(cut_short=6, looping=3, words=920, invented=2).beyond(base) == {}
    assert outcome(words=1080).beyond(base) == {}
    worse = outcome(cut_short=7, looping=4, invented=3, empty=1, words=890)
    assert worse.beyond(base) == pytest.approx(
        {"length_ratio": 2, "cut_short": 1, "looping": 1, "invented": 1, "empty": 1}
    )
    # A point and a half of BLEU and chrF in the mean does not outweigh one percent of the sentences.
    assert worse.value(base) == pytest.approx(40 - 2 * 6)
    # Where the model alone had nothing of the reference either, an invention takes nothing away.
    lost = dataclasses.replace(base, unrelated=frozenset({1, 2, 50}))
    assert outcome(invented=4).beyond(lost) == {}
    assert outcome(invented=5).beyond(lost) == pytest.approx({"invented": 1})
    assert outcome(31, 52, empty=1).value(base) < base.value(base) == base.mean == 40
    # Of few sentences one may always go wrong, and the store's text need not be known.
    few, less = (
        Outcome(1, 1, Faults(n=10, words=9, reference_words=9, cut_short=n, empty=0, looping=0)) for n in (0, 1)
    )
    assert less.beyond(few) == {}


def test_a_point_counts_as_much_as_both_its_neighbours():
    assert smoothed(10, [6, 6]) == 8
    assert smoothed(10, [4]) == 8
    assert smoothed(10, []) == 10


@pytest.fixture(scope="module")
def sure() -> DevNeighbours:
    """Neighbours that are mostly right: likelihood asks for λ .9 whatever decoding says."""
    random = np.random.default_rng(0)
    return evidence_of(
        -random.exponential(4, 50), np.sort(random.exponential(20, (50, 64))), random.random((50, 64)) < 0.9
    )


def climbed(evidence, decodes: int, worth, space: Space = Space()):
    """The best setting, and all that were decoded, where worth(setting) → Outcome says what translations give."""
    grid, points = scored(evidence, space.grid)
    asked: list[Setting] = []

    def decode(setting: Setting) -> Outcome:
        assert setting not in asked, "decoded twice"
        asked.append(setting)
        return worth(setting)

    climb = Climb(evidence, points, dataclasses.replace(space, grid=grid), outcome(0, 0), decode, decodes)
    best = climb.run(Setting(favourite(points)))
    assert [d.setting for d in climb.listed()] == asked
    assert best in asked
    assert best.knn.lambda_ in climb.grid.lambda_.values
    return best, asked


def peak_at(lambda_: float, start: KnnOptions, length_penalty: float = 0.6, end_weight: float = 1.0):
    def worth(setting: Setting) -> Outcome:
        knn = setting.knn
        steps = abs(np.log2(knn.k / start.k)) + abs(np.log10(knn.temperature / start.temperature))
        search = abs(setting.length_penalty - length_penalty) + abs(setting.end_weight - end_weight)
        return outcome(50 - 40 * abs(knn.lambda_ - lambda_) - 3 * steps - 10 * search)

    return worth


@pytest.mark.parametrize("lambda_", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98, 0.02])
def test_the_climb_finds_a_lambda_that_likelihood_does_not_want(sure, lambda_):
    start = favourite(scored(sure, Grid())[1])
    assert start.lambda_ >= 0.8
    best, asked = climbed(sure, 8, peak_at(lambda_, start))
    assert len(asked) <= 8
    assert best.knn.lambda_ == lambda_
    assert climbed(sure, 1, peak_at(lambda_, start)) == (Setting(start), [Setting(start)])
    assert len(climbed(sure, 500, peak_at(lambda_, start))[1]) < 30  # it stops at a peak, whatever it may spend


@pytest.mark.parametrize(("length_penalty", "end_weight"), [(0.6, 1.0), (1.0, 0.5), (1.4, 0.0)])
@pytest.mark.parametrize("lambda_", [0.2, 0.4, 0.7])
def test_the_search_is_chosen_with_lambda(sure, lambda_, length_penalty, end_weight):
    start = favourite(scored(sure, Grid())[1])
    space = Space(length_penalties=(0.6, 1.0, 1.4), end_weights=(1.0, 0.5, 0.25, 0.0))
    best, _ = climbed(sure, 20, peak_at(lambda_, start, length_penalty, end_weight), space)
    assert (best.knn.lambda_, best.length_penalty, best.end_weight) == (lambda_, length_penalty, end_weight)
    assert {"length_penalty": best.length_penalty, "end_weight": best.end_weight}.items() <= best.record().items()


@pytest.mark.parametrize("decodes", [10, 16])
@given(seed=st.integers(0, 200))
def test_the_best_lambda_has_both_its_neighbours_decoded(sure, decodes, seed):
    """However noisy a dev set is: no λ beside the chosen one was skipped."""
    random = np.random.default_rng(seed)

    def worth(setting: Setting) -> Outcome:
        return outcome(30 + float(random.normal(scale=3)) - 20 * abs(setting.knn.lambda_ - 0.4))

    best, asked = climbed(sure, decodes, worth, Space(length_penalties=(0.6, 1.0)))
    line = {s.knn.lambda_ for s in asked if dataclasses.replace(s, knn=best.knn) == best and s.knn.k == best.knn.k
            and s.knn.temperature == best.knn.temperature}  # fmt: skip
    values = (*Grid().lambda_.below[::-1], *Grid().lambda_.values, *Grid().lambda_.above)
    if len(asked) < decodes:
        assert {*Axis(values).beside(best.knn.lambda_)} <= line


def test_a_lucky_point_among_worse_ones_is_not_chosen(sure):
    """λ .3 has more than any, but .2 and .4 are poor; .5, .6 and .7 are all good."""
    bleus = {0.2: 20.0, 0.3: 30.0, 0.4: 22.0, 0.5: 28.0, 0.6: 29.5, 0.7: 28.0}
    best, _ = climbed(sure, 12, lambda s: outcome(bleus.get(s.knn.lambda_, 10.0) - 5 * (s.knn.k != 4)))
    assert best.knn.lambda_ == 0.6


def test_settings_beyond_the_bounds_are_left_for_worse_ones_within(sure):
    best, _ = climbed(sure, 12, lambda s: outcome(20 + 10 * s.knn.lambda_, cut_short=round(20 * s.knn.lambda_)))
    assert best.knn.lambda_ <= 0.1  # two sentences; λ .2 has four, and more BLEU


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


def test_a_store_that_only_hurts_is_left_out(model, store, dev):
    """Neighbours whose tokens are all wrong: the model alone is better, with the search it was given."""

    class Wrong:
        def search(self, queries, k):
            found = store.search(queries, k)
            return dataclasses.replace(found, values=np.where(found.values < 0, -1, 7).astype(np.int32))

    dev = [pair for pair in dev if 7 not in model.target.encode(pair.tgt_text)]
    tuning = tune(model, Wrong(), dev, "text", SHORT, 4, Space(length_penalties=(1.4,)), progress=False)
    assert (tuning.best.lambda_, tuning.length_penalty, tuning.end_weight) == (0, SHORT.length_penalty, 1)
    assert tuning.outcome == tuning.base
    assert tuning.value == tuning.base_value == tuning.base.mean


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
    for name in ("chrf", "base_chrf", "end_weight", "sha256"):
        earlier.pop(name)
    earlier["format"] = 1
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
    common = ("--model", directory / "model", "--store", store.path, "--beam", 2, "--max-length", 24, "--decodes", 4)
    answer = json.loads(npda_tune(*common, "--text", directory / "text.tsv", "--json"))
    here = tune(model, store, dev, "text", SHORT, 4, Space(length_penalties=(0.6, 1.0, 1.4)), progress=False).record()
    assert {k: v for k, v in answer.items() if k != "seconds"} == {k: v for k, v in here.items() if k != "seconds"}
    tuned = load_tuned_record(store)
    assert tuned is not None
    assert answer["best"] == Setting(tuned.options, tuned.length_penalty, tuned.end_weight).record()
    assert (tuned.bleu, tuned.chrf, tuned.base_chrf) == (answer["bleu"], answer["chrf"], answer["base_chrf"])
    fixed = json.loads(npda_tune(*common, "--text", directory / "text.tsv", "--length-penalty", 1.2, "--json"))
    assert {decoded["length_penalty"] for decoded in fixed["decoded"]} == {1.2}
    shown = npda_tune(*common, "--speech", directory / "speech.tsv", "--plot", directory / "map.png")
    for words in (
        "log-likelihood a token",
        "6 dev sentences (speech)",
        "best: k",
        "dev BLEU: ",
        "chrF: ",
        "cut short",
        "length penalty",
        "•",
    ):
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
