"""Neighbours taken from sentences that were found before, against looking through all keys one by one."""

import numpy as np
import pytest
import soundfile
import tiny_store
import torch

from npda import audio
from npda.corpus.manifest import Utterance
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.pruning import PruneOptions
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.store import Datastore
from npda.datastore.stored_sentences import SeenSentences, StoredSentences
from npda.decoding.beam import SearchOptions, search
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.following import FollowingFusion, FollowOptions
from npda.decoding.knn.fusion import KnnFusion
from npda.decoding.knn.skipping import SkippingFusion, SureGate
from npda.evaluation.devset import DevSet
from npda.evaluation.scores import bleu
from npda.evaluation.tuning.following import STEP, tune_following
from npda.systems.variants import variant_fusion

KNN = KnnOptions(4, 0.8, 10.0)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def store(model, tmp_path_factory) -> Datastore:
    return Datastore.build(model, tiny_store.pairs(60), tmp_path_factory.mktemp("store") / "store")


def with_a_gap(path) -> Datastore:
    """Sentences of 7 keys in three sources of which the one in the middle was removed."""
    return tiny_store.store_of(path, [tiny_store.clustered(24, seed=i) for i in range(3)], sentence=7).remove("s1")


def kinds(folder) -> dict[str, Datastore | LocalRetriever | JoinedRetriever]:
    gap, other = with_a_gap(folder / "gap"), tiny_store.store_of(folder / "other", [tiny_store.clustered(33, seed=5)])
    pruned = compress(other, folder / "pruned", CompressOptions(prune=PruneOptions(keep=0.7), progress=False))
    narrow = compress(other, folder / "narrow", CompressOptions(dim=5, progress=False))
    return {
        "one": LocalRetriever(gap),
        "pruned": pruned,
        "narrow": narrow,
        "joined": JoinedRetriever([with_a_gap(folder / "shorter").remove("s2"), narrow, gap]),
    }


@pytest.fixture(scope="module", params=["one", "pruned", "narrow", "joined"])
def retriever(request, tmp_path_factory):
    return kinds(tmp_path_factory.mktemp("stores"))[request.param]


def all_ids(retriever) -> list[int]:
    count = sum(len(store) for store in getattr(retriever, "stores", [getattr(retriever, "store", retriever)]))
    found = retriever.search(np.zeros((1, 32), np.float32), count).ids[0]
    assert (found >= 0).all()
    return sorted(found.tolist())


def place(retriever, id_: int) -> tuple:
    """Which sentence of which store a key stands in, and where."""
    entry = retriever.neighbour_info(id_)
    store = retriever.locate(id_)[0].path if isinstance(retriever, JoinedRetriever) else None
    return store, entry.source_text, entry.position


def test_every_key_knows_its_sentence_and_the_token_before(retriever):
    stored, ids = StoredSentences(retriever), all_ids(retriever)
    places = {place(retriever, id_): id_ for id_ in ids}
    for id_ in ids:
        sentence, position = place(retriever, id_)[:2], place(retriever, id_)[2]
        expected = [other for at, other in places.items() if at[:2] == sentence]
        assert stored.keys(stored.of(np.array([id_, -1]))).tolist() == sorted(expected)
        before = places.get((*sentence, position - 1))
        token = -1 if before is None else retriever.neighbour_info(before).token
        assert stored.before(np.array([id_])).tolist() == [token]
    assert stored.keys(stored.of(np.array([*ids, -1, ids[0]]))).tolist() == ids
    assert stored.of(np.array([-1])).tolist() == []


def test_sentences_of_a_removed_source_are_gone(tmp_path):
    stored = StoredSentences(with_a_gap(tmp_path / "s"))
    assert stored.keys(stored.of(np.arange(21, 24))).tolist() == [21, 22, 23]  # the last three before the gap
    assert stored.before(np.array([21, 22, 48, 49])).tolist() == [-1, 21, -1, 48]


@pytest.mark.parametrize("k", [1, 6, 200])
def test_candidates_are_ranked_as_a_search_ranks_them(retriever, k):
    queries, ids = tiny_store.clustered(5, seed=9).astype(np.float32), np.array(all_ids(retriever))
    rows = np.repeat(np.arange(5), len(ids))
    shuffled = np.concatenate([np.random.default_rng(row).permutation(ids) for row in range(5)])
    found, expected = StoredSentences(retriever).nearest(queries, rows, shuffled, k), retriever.search(queries, k)
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.values, expected.values)


def test_distances_are_those_of_numpy(tmp_path):
    keys, queries = tiny_store.clustered(40), tiny_store.clustered(4, seed=1).astype(np.float32)
    stored = StoredSentences(tiny_store.store_of(tmp_path / "s", [keys[:15], keys[15:]]))
    rows, ids = np.array([0, 0, 0, 2, 3, 3]), np.array([39, 3, 17, 14, 0, 15])
    found = stored.nearest(queries, rows, ids, 3)
    for row, candidates in enumerate(([39, 3, 17], [], [14], [0, 15])):
        true, order = tiny_store.brute_force(keys[candidates], queries[row : row + 1], 3)
        near = [candidates[i] for i in order[0]]
        np.testing.assert_allclose(found.distances[row, : len(near)], true[0], rtol=1e-5)
        assert found.ids[row].tolist() == near + [-1] * (3 - len(near))
        assert found.values[row].tolist() == near + [-1] * (3 - len(near))
        assert np.isposinf(found.distances[row, len(near) :]).all()


def test_seen_sentences_are_looked_up_by_the_token_before(tmp_path):
    seen = SeenSentences(StoredSentences(tiny_store.store_of(tmp_path / "s", [tiny_store.clustered(120)])))
    assert seen.after(4).tolist() == []
    seen.add(np.array([3, 8, -1]))  # keys 0 … 9, whose values are their ids modulo 50
    assert (seen.after(4).tolist(), seen.after(9).tolist(), seen.after(-7).tolist()) == ([5], [], [])
    seen.add(np.array([57, 2]))  # 50 … 59: the same tokens again
    assert seen.after(4).tolist() == [5, 55]


class Reference:
    """What ``FollowingFusion.find`` has to give, in Python over one hypothesis after the other, and what it counts."""

    def __init__(self, store: Datastore, options: FollowOptions) -> None:
        self.keys = store.entries.keys(np.arange(len(store)))
        self.entries = [store.neighbour_info(id_) for id_ in range(len(store))]
        self.options, self.seen, self.followed = options, {}, 0

    def find(self, queries, prefixes, sentences) -> list[list[int]]:
        found, seen = [], {key: set(texts) for key, texts in self.seen.items()}
        for query, prefix, sentence in zip(queries, prefixes.tolist(), sentences.tolist(), strict=True):
            distances = ((self.keys.astype(np.float64) - query) ** 2).sum(1)
            order = np.argsort(distances, kind="stable").tolist()
            known = [i for i in order if self._follows(i, prefix[-1], seen.get(sentence, ()))]
            if known and distances[known[0]] <= self.options.threshold:
                self.followed += 1
                found.append(known[: KNN.k])
            else:
                texts = {self._sentence(i) for i in order[: KNN.k * self.options.depth]}
                self.seen.setdefault(sentence, set()).update(texts)
                found.append(order[: KNN.k])
        return found

    def _sentence(self, id_: int) -> str:
        return self.entries[id_].source_text

    def _follows(self, id_: int, token: int, seen) -> bool:
        before = self.entries[id_ - 1]
        return id_ > 0 and self._sentence(id_) == before.source_text in seen and before.token == token


@pytest.mark.parametrize("threshold", [8.0, 30.0, np.inf])
def test_hypotheses_follow_what_their_sentence_has_seen(tmp_path, threshold):
    random = np.random.default_rng(0)
    store = tiny_store.store_of(tmp_path / "s", [tiny_store.clustered(600, dim=8)], sentence=12)
    options = FollowOptions(threshold, depth=2)
    fusion, reference = FollowingFusion(store, KNN, options), Reference(store, options)
    sentences = np.repeat(np.arange(3), 4)
    for turn in range(2):
        reference.seen = {}
        prefixes = np.zeros((12, 1), np.int64)
        for step in range(12):
            kept = np.sort(random.permutation(12)[: 12 - step // 2]) % len(prefixes)
            prefixes, sentences = prefixes[kept], sentences[kept]
            near = np.array([random.choice(np.flatnonzero(np.arange(600) % 50 == (p[-1] + 1) % 50)) for p in prefixes])
            queries = store.entries.keys(near) + random.normal(scale=0.6, size=(len(near), 8)).astype(np.float32)
            found = fusion.find(queries, prefixes, sentences)
            expected = reference.find(queries, prefixes, sentences)
            assert [[i for i in row if i >= 0] for row in found.ids.tolist()] == expected
            prefixes = np.append(prefixes, random.integers(0, 50, (len(prefixes), 1)), axis=1)
        sentences = np.repeat(np.arange(3), 4)
        assert fusion.followed == reference.followed > 10 * (turn + 1)
    assert fusion.share_followed == fusion.followed / fusion.asked < 1


def decode(model, fusion, rows=(0, 1, 2), beam=3):
    features = torch.randn(3, 40, 80, generator=torch.Generator().manual_seed(0))[list(rows)]
    with torch.inference_mode():
        memory = model.hear(features, torch.tensor([40, 25, 33])[list(rows)])
        return search(model, memory, model.prompt(), SearchOptions(beam, max_length=15, n_best=beam), [fusion])


def test_who_never_follows_searches_as_ever(model, store):
    never = FollowingFusion(store, KNN, FollowOptions(-np.inf))
    assert decode(model, never) == decode(model, KnnFusion(store, KNN))
    assert (never.followed, never.share_followed) == (0, 0.0)
    assert never.asked > 0


def test_what_a_sentence_gets_does_not_depend_on_its_batch(model, store):
    fusion = FollowingFusion(store, KNN, FollowOptions(np.inf, depth=1))
    together = decode(model, fusion, [0, 1, 2, 0])
    assert 0.1 < fusion.share_followed < 1
    for row, expected in zip([0, 1, 2, 0], together, strict=True):
        (alone,) = decode(model, fusion, [row])
        assert [h.tokens for h in alone] == [h.tokens for h in expected]
        assert [h.score for h in alone] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_a_gate_may_stand_before_it(model, store):
    following = FollowingFusion(store, KNN, FollowOptions(np.inf))
    gated = SkippingFusion(following, SureGate(0.6))
    decode(model, gated)
    assert 0 < gated.share_skipped < 1
    assert 0 < following.asked <= gated.asked - gated.skipped
    assert following.followed > 0


@pytest.mark.parametrize(("share", "changed"), [(0.6, 0.0), (0.6, 0.2), (0.6, 1.0), (0.3, 1.0), (0.0, 1.0)])
def test_as_many_searches_are_saved_as_few_translations_change(model, store, share, changed):
    devset, search_options = DevSet(model, tiny_store.pairs(12, seed=3), "text"), SearchOptions(beam=2, max_length=8)
    tuning = tune_following(devset, store, KNN, search_options, share, changed, depth=2)
    full = devset.translations(search_options, [KnnFusion(store, KNN)])
    assert tuning.full_bleu == bleu(full, devset.references).value
    with_all, *fewer = tuning.decoded
    assert with_all.share == with_all.changed == 0
    wanted = [share - STEP * turn for turn in range(len(fewer))]
    assert [followed.share for followed in fewer] == pytest.approx(wanted, abs=0.12)
    again = FollowingFusion(store, KNN, tuning.best.options)
    translations = devset.translations(search_options, [again])
    assert bleu(translations, devset.references).value == tuning.best.bleu
    assert again.share_followed == tuning.best.share
    assert np.mean([a != b for a, b in zip(translations, full, strict=True)]) == tuning.best.changed <= changed
    assert all(followed.changed > changed for followed in fewer if followed.share > tuning.best.share)


def test_the_skipping_variant_follows_as_dev_speech_tells(model, store, tmp_path):
    spoken = []
    for number, pair in enumerate(tiny_store.pairs(6, seed=3)):
        samples = np.random.default_rng(number).normal(scale=0.1, size=6_000 + 900 * number)
        soundfile.write(tmp_path / f"{number}.wav", samples, 16_000)
        frames = audio.frame_count(len(samples))
        spoken.append(Utterance(str(number), str(tmp_path / f"{number}.wav"), frames, pair.tgt_text, pair.src_text))
    options = SearchOptions(beam=2, max_length=8)
    fusion, figures = variant_fusion("skipping", model, store, KNN, spoken, options, None, tmp_path)
    assert figures() == {"share of searches skipped": 0.0}
    devset = DevSet(model, spoken, "speech")
    chosen = tune_following(devset, store, KNN, options).best
    assert bleu(devset.translations(options, [fusion]), devset.references).value == chosen.bleu
    assert figures() == {"share of searches skipped": chosen.share}
    assert chosen.changed <= 0.05


def test_impossible_options_are_refused(model, store):
    with pytest.raises(ValueError, match="depth"):
        FollowOptions(1.0, depth=0)
    with pytest.raises(ValueError, match="threshold"):
        FollowOptions(float("nan"))
    devset = DevSet(model, tiny_store.pairs(2), "text")
    with pytest.raises(ValueError, match="share"):
        tune_following(devset, store, KNN, share=1.0)
