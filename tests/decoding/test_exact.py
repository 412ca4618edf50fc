"""Keys that were met exactly decide, against the mixture written out; and an overlay finds what brute force finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_store
import torch

from npda.datastore.retrieval.overlaid import Added, Overlaid, Overlaying
from npda.datastore.retrieval.protocol import Neighbours
from npda.decoding.knn.combiners import KnnOptions
from npda.decoding.knn.exact import Exact
from npda.decoding.knn.fusion import EndVotes
from npda.decoding.knn.guard import Guard
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore

VOCABULARY, EOS = 12, 2


class Table:
    """Gives the same neighbours to every query, or those of its row."""

    def __init__(self, distances: list[list[float]], values: list[list[int]], first: int = 0) -> None:
        self.distances, self.values = np.array(distances, np.float32), np.array(values, np.int32)
        self.ids = np.where(self.values < 0, -1, first + np.arange(self.values.size).reshape(self.values.shape))

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        rows = queries[:, 0].astype(int)  # queries are their own row numbers
        return Neighbours(self.distances[rows, :k], self.values[rows, :k], self.ids[rows, :k])


def mixed(stores: list[GuardedStore], counter: Table, rows: int) -> np.ndarray:
    """The probabilities that a fusion gives to one step of ``rows`` sentences, and those of the model: uneven ones."""
    log_probs = torch.log_softmax(torch.arange(rows * VOCABULARY).reshape(rows, -1).float() / 7, dim=1)
    states = torch.arange(rows, dtype=torch.float32)[:, None].expand(rows, 4)
    prefixes, sentences = torch.ones(rows, 1, dtype=torch.long), torch.arange(rows)
    fusion = GuardedFusion(stores, counter)
    return np.stack([fusion.apply(states, log_probs, prefixes, sentences).exp().numpy(), log_probs.exp().numpy()])


def by_hand(tables: list[Table], stores: list[GuardedStore], counter: Table, model: np.ndarray, row: int) -> np.ndarray:
    """One row in plain Python."""
    logits, lambdas, votes, met = [], [], [], []
    for table, store in zip(tables, stores, strict=True):
        options, end = store.combiner, store.end_votes
        assert isinstance(options, KnnOptions)
        d, v = table.distances[row].astype(float), table.values[row]
        c = counter.distances[row, 0]
        logits.append(store.guard.logit(np.array([(c - d[0]) / (c + d[0]) / 2]))[0])
        p = np.exp(-d / options.temperature)
        p /= p.sum()
        p[v == EOS] *= end.weight if end else 1.0
        votes.append([(token, share * options.lambda_) for token, share in zip(v, p, strict=True)])
        lambdas.append(p.sum() * options.lambda_)
        exact = store.exact
        near = [] if exact is None else [
            token for token, distance, id_ in zip(v, d, table.ids[row], strict=True)
            if distance <= exact.within and id_ >= exact.first
        ]  # fmt: skip
        met.append(near)
    opened = np.exp(logits - np.max(logits))
    opened /= opened.sum() * (1 + np.exp(-np.max(logits)))
    sharing = sum(bool(near) for near in met)
    weight = sum(s.exact.weight / sharing for s, near in zip(stores, met, strict=True) if near and s.exact)
    p = np.zeros(VOCABULARY)
    for share, vote in zip(opened, votes, strict=True):
        for token, value in vote:
            p[token] += (1 - weight) * share * value
    p += (1 - (1 - weight) * float(opened @ np.array(lambdas)) - weight) * model
    for store, near in zip(stores, met, strict=True):
        for token in near:
            assert store.exact is not None
            p[token] += store.exact.weight / sharing / len(near)
    return p


@pytest.mark.parametrize("first", [0, 100])
def test_exact_keys_decide_as_written_out(first: int) -> None:
    one = Table(
        [[0.001, 5.0, 9.0], [4.0, 5.0, 9.0], [0.0, 0.002, 30.0], [0.001, 0.002, 40.0]],
        [[3, 4, 3], [5, EOS, 6], [EOS, 7, EOS], [EOS, EOS, 8]],
    )
    two = Table(
        [[2.0, 3.0], [0.004, 1.0], [0.003, 6.0], [8.0, 9.0]],
        [[9, 9], [10, EOS], [EOS, 11], [3, EOS]],
        first=50,
    )
    counter = Table([[6.0], [3.0], [20.0], [0.5]], [[0], [0], [0], [0]])
    stores = [
        GuardedStore(one, KnnOptions(3, 0.6, 4.0), Guard(5.0, 0.1), EndVotes(EOS, 0.25), Exact(0.01, 0.9, first)),
        GuardedStore(two, KnnOptions(2, 0.5, 2.0), Guard(9.0, -0.1), EndVotes(EOS, 0.0), Exact(0.01, 0.8)),
    ]
    found, model = mixed(stores, counter, 4)
    for row in range(4):
        expected = by_hand([one, two], stores, counter, model[row], row)
        np.testing.assert_allclose(found[row], expected, atol=1e-6)
        assert expected.sum() == pytest.approx(1.0)
    if first == 0:
        assert found[3, EOS] > 0.9  # the end counts in full, though the gate is shut and votes for it are damped


def test_without_exact_keys_nothing_changes() -> None:
    table = Table([[0.0, 5.0, 9.0]], [[3, EOS, 3]])
    counter = Table([[6.0]], [[0]])
    how = KnnOptions(3, 0.6, 4.0), Guard(), EndVotes(EOS, 0.0)
    plain = GuardedStore(table, *how)
    for exact in (Exact(0.01, first=3), Exact(0.0, weight=0.0)):
        with_exact, _ = mixed([GuardedStore(table, *how, exact)], counter, 1)
        np.testing.assert_array_equal(with_exact, mixed([plain], counter, 1)[0])


def test_a_store_that_is_tuned_off_still_knows_what_it_met() -> None:
    table, counter = Table([[0.0]], [[4]]), Table([[6.0]], [[0]])
    off = GuardedStore(table, KnnOptions(1, 0.0), exact=Exact(0.01, 0.9))
    found, model = mixed([off], counter, 1)
    assert found[0, 4] == pytest.approx(0.9 + 0.1 * model[0, 4])


def sentence(name: str, keys: np.ndarray, token: int) -> Added:
    return Added(name, "corrections/me", f"source {name}", f"target {name}", keys, np.full(len(keys), token))


def grown(arrays: list[np.ndarray]) -> Overlaying:
    overlaying = Overlaying(arrays[0].shape[1])
    for number, keys in enumerate(arrays):
        overlaying.add(sentence(str(number), keys, number % 50))
    return overlaying


def test_an_overlay_alone_finds_what_brute_force_finds() -> None:
    arrays = [tiny_store.clustered(size, seed=size).astype(np.float32) for size in (7, 1, 900, 400)]
    overlay = grown(arrays).overlay()
    keys = np.concatenate(arrays)
    queries = np.concatenate([tiny_store.clustered(20, seed=5).astype(np.float32), keys[3:5]])
    distances, ids = tiny_store.brute_force(keys, queries, 8)
    found = Overlaid("name", None, overlay).search(queries, 8)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.values, np.repeat(np.arange(4), [7, 1, 900, 400])[ids])
    assert found.distances[-1, 0] == 0  # to the last bit, however rounding goes


def test_an_overlay_joins_a_store(tmp_path: Path) -> None:
    below, above = tiny_store.clustered(300, seed=1), tiny_store.clustered(40, seed=2)
    store = tiny_store.store_of(tmp_path / "store", [below])
    retriever = Overlaid(
        "store", store, grown([above[:25].astype(np.float32), above[25:].astype(np.float32)]).overlay()
    )
    queries = tiny_store.clustered(30, seed=3).astype(np.float32)
    distances, ids = tiny_store.brute_force(np.concatenate([below, above]), queries, 6)
    found = retriever.search(queries, 6)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-5)
    np.testing.assert_array_equal(found.ids, ids)  # the store's ids are its rows, the overlay's follow
    entry = retriever.neighbour_info(300 + 27)
    assert (entry.source_text, entry.position, entry.token, entry.source) == ("source 1", 2, 1, "corrections/me")
    assert retriever.neighbour_info(12) == store.neighbour_info(12)


def test_fewer_keys_than_asked_for() -> None:
    overlay = grown([np.ones((2, 4), np.float32)]).overlay()
    found = Overlaid("name", None, overlay).search(np.zeros((1, 4), np.float32), 5)
    assert found.distances[0].tolist() == [4, 4, np.inf, np.inf, np.inf]
    assert found.ids[0].tolist() == [0, 1, -1, -1, -1]
    assert found.values[0].tolist() == [0, 0, -1, -1, -1]
    nothing = Overlaying(4).overlay().search(np.zeros((1, 4), np.float32), 2)
    assert nothing.values[0].tolist() == [-1, -1]


def test_who_reads_an_overlay_keeps_it() -> None:
    overlaying = Overlaying(2)
    overlaying.add(sentence("a", np.zeros((3, 2), np.float32), 1))
    before = overlaying.overlay()
    for number in range(900):
        overlaying.add(sentence(str(number), np.full((2, 2), number, np.float32), 2))
    overlaying.remove({"a"})
    assert len(before) == 3
    assert len(overlaying) == 1800
    np.testing.assert_array_equal(before.keys, np.zeros((3, 2)))
    assert before.neighbour_info(2).target_text == "target a"
    after = overlaying.overlay()
    assert after.neighbour_info(1799).target_text == "target 899"
    assert after.version > before.version


def test_how_far_corrections_speak_is_what_their_neighbours_show() -> None:
    """Of the nearest keys of other sentences, by plain loops."""
    random = np.random.default_rng(0)
    overlaying = Overlaying(4)
    for number in range(30):
        tokens = random.integers(0, 6, size=4).astype(np.int32)
        # A state is where its token is, more or less; every second sentence is noise.
        keys = np.eye(6, 4)[tokens] * 3 + random.normal(scale=4.0 if number % 2 == 0 else 0.2, size=(4, 4))
        overlaying.add(Added(str(number), "me", "", "", keys.astype(np.float32), tokens))
        overlay = overlaying.overlay()
        assert overlaying.overlay() is overlay  # nothing has changed
        found = []
        for key, token, sentence in zip(overlay.keys, overlay.values, overlay.sentences, strict=True):
            others = [
                (float(((key - other) ** 2).sum()), int(value) == int(token))
                for other, value, own in zip(overlay.keys, overlay.values, overlay.sentences, strict=True)
                if own != sentence
            ]
            found += [min(others)] if others else []
        found.sort()
        reach = 0.0
        for count in range(32, len(found) + 1):
            if sum(agrees for _, agrees in found[:count]) >= 0.7 * count:
                reach = found[count - 1][0]
        assert overlay.reach == pytest.approx(reach, rel=1e-3)
    assert 0 < overlaying.overlay().reach < found[-1][0]
    assert len(overlaying.overlay()) == 120
