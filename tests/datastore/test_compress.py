"""Smaller stores against NumPy: what is kept, how near it is, and that every key still knows its sentence."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tiny_store
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from npda.cli.compress import compress as compress_verb
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.format import PROJECTION_FILE
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.projection import Projection
from npda.datastore.pruning import PruneOptions, redundant
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.io.errors import InputError


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def read(model, tmp_path_factory) -> Datastore:
    """A store of sentences, in several shards."""
    path = tmp_path_factory.mktemp("read") / "store"
    return Datastore.build(model, tiny_store.pairs(60), path, options=BuildOptions(chunk=25))


@pytest.fixture
def stretched(tmp_path) -> tuple[Datastore, np.ndarray]:
    """Keys that vary a lot in 4 directions, askew to the axes and far from 0, and little in the other 12."""
    random = np.random.default_rng(0)
    turn, _ = np.linalg.qr(random.normal(size=(16, 16)))
    keys = (random.normal(size=(300, 16)) * np.where(np.arange(16) < 4, 5.0, 0.1)) @ turn + 20
    keys = keys.astype(np.float16)
    return tiny_store.store_of(tmp_path / "store", [keys[:200], keys[200:]]), keys


def test_projection_is_what_singular_values_say(stretched):
    store, keys = stretched
    projection = Projection.fit(store.entries, 4)
    exact = keys.astype(np.float64)
    _, values, directions = np.linalg.svd(exact - exact.mean(axis=0), full_matrices=False)
    assert projection.variance == pytest.approx((values[:4] ** 2).sum() / (values**2).sum(), rel=1e-4)
    np.testing.assert_allclose(projection.mean, exact.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(np.abs(projection.matrix @ directions[:4].T), np.eye(4), atol=1e-3)  # but for signs
    np.testing.assert_allclose(projection.matrix @ projection.matrix.T, np.eye(4), atol=1e-5)


def test_a_projected_store_answers_states_of_the_full_width(stretched, tmp_path):
    store, keys = stretched
    small = compress(store, tmp_path / "small", CompressOptions(dim=4))
    verify(small.path, progress=False)
    assert (small.dim, small.info.state_dim, len(small)) == (4, 16, len(store))
    assert small.sizes()["keys"] < 0.4 * store.sizes()["keys"]
    queries = np.random.default_rng(1).normal(loc=20, scale=4, size=(7, 16)).astype(np.float32)
    projection = Projection.fit(store.entries, 4)
    stored = projection(keys).astype(np.float16)
    distances, rows = tiny_store.brute_force(stored, projection(queries), 5)
    found = small.search(queries, 5)
    np.testing.assert_array_equal(found.ids, rows)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-4)
    np.testing.assert_array_equal(found.values, rows % 50)
    joined = JoinedRetriever([store, small]).search(queries, 5)
    assert (
        joined.distances[:, 0].tolist()
        == np.minimum(found.distances, store.search(queries, 5).distances)[:, 0].tolist()
    )


def test_distances_get_no_longer_and_all_dimensions_change_nothing(stretched, tmp_path):
    store, keys = stretched
    queries = keys[:20].astype(np.float32) + 1
    true = store.search(queries, 8)
    same = compress(store, tmp_path / "turned", CompressOptions(dim=16)).search(queries, 8)
    np.testing.assert_allclose(same.distances, true.distances, rtol=0.02)
    fewer = compress(store, tmp_path / "small", CompressOptions(dim=6)).search(queries, 8)
    assert (fewer.distances <= true.distances * 1.02).all()


def test_projected_twice_is_projected_once(stretched, tmp_path):
    store, keys = stretched
    once = compress(store, tmp_path / "once", CompressOptions(dim=4))
    between = compress(store, tmp_path / "between", CompressOptions(dim=8))
    twice = compress(between, tmp_path / "twice", CompressOptions(dim=4))
    queries = keys[:20].astype(np.float32) + 1
    np.testing.assert_allclose(twice.search(queries, 4).distances, once.search(queries, 4).distances, rtol=0.02)
    assert twice.info.projection
    assert once.info.projection
    assert twice.info.projection.variance == pytest.approx(once.info.projection.variance, abs=1e-3)


def test_a_compressed_store_belongs_to_its_model_and_can_grow(model, read, tmp_path):
    small = compress(read, tmp_path / "small", CompressOptions(dim=8, prune=PruneOptions(keep=0.7)))
    Datastore.open(small.path, model)
    with pytest.raises(InputError, match="another model"):
        small.check(tiny_store.backbone(seed=5))
    more = tiny_store.pairs(10, seed=9)
    grown = small.append(model, Source("more", more))
    verify(grown.path, progress=False)
    alone = Datastore.build(model, more, tmp_path / "alone")
    added = np.concatenate(
        [np.arange(s.first, s.first + s.count) for s in grown.entries.shards if s.info.source == "more"]
    )
    assert grown.projection
    expected = grown.projection(alone.entries.keys(np.arange(len(alone))))
    np.testing.assert_allclose(grown.entries.keys(added), expected, atol=0.01)
    assert grown.remove("more").info.count == small.info.count


def test_a_damaged_projection_is_refused(read, tmp_path):
    small = compress(read, tmp_path / "small", CompressOptions(dim=8))
    path = small.path / PROJECTION_FILE
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=PROJECTION_FILE):
        Datastore.open(small.path)
    path.unlink()
    with pytest.raises(InputError, match="missing"):
        Datastore.open(small.path)


def content(store: Datastore) -> list[tuple]:
    """Every key and what it stands for."""
    keys = store.entries.keys(np.arange(len(store)))
    return [(keys[id_].tobytes(), store.neighbour_info(id_)) for id_ in range(len(store))]


def test_survivors_know_their_sentence_and_position(read, tmp_path):
    small = compress(read, tmp_path / "small", CompressOptions(prune=PruneOptions(keep=0.6)))
    verify(small.path, progress=False)
    assert len(small) == -(-6 * len(read) // 10)
    assert small.info.pruned == len(read) - len(small)
    assert sum(source.keys for source in small.info.sources) == len(small)
    assert [source.sentences for source in small.info.sources] == [60]
    before = Counter(content(read))  # sentences that begin alike share their first keys
    assert Counter(content(small)) <= before


class Labelled:
    """Entries in memory: keys on a line, values beside them."""

    dim = 1

    def __init__(self, keys, values) -> None:
        self._keys, self._values = np.array(keys, np.float32)[:, None], np.array(values, np.int32)
        self.count = self.limit = len(keys)
        self.shards = ()

    def values(self):
        return self._values

    def blocks(self, rows):
        for start in range(0, self.count, rows):
            yield start, self._keys[start : start + rows]


def left_out(keys, values, **options) -> list[int]:
    entries: Any = Labelled(keys, values)
    return redundant(entries, ExactSearcher(entries), PruneOptions(**options), progress=False).tolist()


def test_pruning_by_hand():
    keys, values = [0, 1, 5, 5.5, 9, 9.1], [1, 1, 2, 3, 4, 4]
    assert left_out(keys, values, keep=0.01) == [1, 5]  # 5 and 5.5 differ in what follows
    assert left_out(keys, values, keep=5 / 6) == [5]  # the nearest pair first
    assert left_out(keys, values, keep=0.01, radius=0.5) == [5]
    assert left_out(keys, values, keep=1.0) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), min_size=1, max_size=40),
    st.floats(0.05, 1.0),
    st.sampled_from([1.0, 25.0, float("inf")]),
)
def test_whoever_goes_is_stood_for(entries, keep, radius):
    keys, values = [float(key) for key, _ in entries], [value for _, value in entries]
    gone = left_out(keys, values, keep=keep, radius=radius, neighbours=5)
    assert len(keys) - len(gone) >= keep * len(keys) - 1e-6
    stay = set(range(len(keys))) - set(gone)
    for id_ in gone:
        assert any(values[s] == values[id_] and (keys[s] - keys[id_]) ** 2 <= radius for s in stay)


def test_wrong_wishes_are_refused(read, tmp_path):
    with pytest.raises(InputError, match="cannot be projected to 33"):
        compress(read, tmp_path / "new", CompressOptions(dim=33))
    with pytest.raises(InputError, match="already exists"):
        compress(read, read.path, CompressOptions(dim=2))
    with pytest.raises(InputError, match="not known to Faiss"):
        compress(read, tmp_path / "new", CompressOptions(dim=2, index="IVFFFF"))
    assert list(tmp_path.iterdir()) == []


def test_the_verb(read, tmp_path):
    app = typer.Typer()
    app.command()(compress_verb)

    def npda(*arguments):
        answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    content = json.loads(npda(read.path, "--out", tmp_path / "new", "--dim", 8, "--prune", 0.5, "--json"))
    assert (content["dim"], content["projection"]["dim"]) == (8, 32)
    assert content["count"] + content["pruned"] == len(read)
    table = npda(read.path, "--out", tmp_path / "other", "--dim", 8)
    assert "8 of 32 dimensions" in table
    for wrong, words in ((["--dim", 0], "cannot be projected"), ([], "--dim"), (["--prune", 0], "share")):
        with pytest.raises(InputError, match=words):
            npda(read.path, "--out", tmp_path / "wrong", *wrong)
