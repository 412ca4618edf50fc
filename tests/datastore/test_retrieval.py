"""Searching, against NumPy that compares everything with everything in double precision."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tiny_store
from hypothesis import given, settings
from hypothesis import strategies as st

from npda.datastore.index import exact, search
from npda.datastore.key_table import KeyTable
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.io.errors import InputError
from npda.io.sealed import read_sealed


def check(found, keys: np.ndarray, queries: np.ndarray, k: int, tolerance: float = 1e-4) -> None:
    """Distances are the true ones in rising order, each of the key that is named; values are ids mod 50."""
    true, _ = tiny_store.brute_force(keys, queries, k)
    real = true.shape[1]
    assert found.distances.shape == found.values.shape == found.ids.shape == (len(queries), k)
    assert (found.distances.dtype, found.values.dtype, found.ids.dtype) == (np.float32, np.int32, np.int64)
    np.testing.assert_allclose(found.distances[:, :real], true, rtol=tolerance, atol=tolerance)
    named = ((queries[:, None] - keys[found.ids[:, :real]].astype(np.float64)) ** 2).sum(-1)
    np.testing.assert_allclose(found.distances[:, :real], named, rtol=tolerance, atol=tolerance)
    assert all(len(set(row)) == real for row in found.ids[:, :real].tolist())
    np.testing.assert_array_equal(found.values[:, :real], found.ids[:, :real] % 50)
    assert np.isposinf(found.distances[:, real:]).all()
    assert (found.ids[:, real:] == -1).all()
    assert (found.values[:, real:] == -1).all()


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    dim=st.integers(1, 9),
    queries=st.integers(0, 40),
    k=st.integers(1, 40),
    values=st.sampled_from([3, 50, 10_000]),  # few different numbers make duplicates and ties
    in_memory=st.booleans(),
    stretch=st.sampled_from([1, 3, 64]),
    seed=st.integers(0, 1000),
)
def test_exact_search_is_numpy(sizes, dim, queries, k, values, in_memory, stretch, seed):
    random = np.random.default_rng(seed)
    keys = [(random.integers(0, values, (size, dim)) / 10).astype(np.float16) for size in sizes]
    asked = (random.integers(0, values, (queries, dim)) / 10).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_STRETCH", stretch)
        patch.setattr(exact, "_TILE", 200)
        if not in_memory:
            patch.setattr(exact, "IN_MEMORY_BYTES", 0)
            patch.setattr(exact, "_BLOCK_ROWS", 7)
        store = tiny_store.store_of(Path(folder) / "s", keys)
        check(LocalRetriever(store).search(asked, k), np.concatenate(keys), asked, k, tolerance=1e-3)


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=4), k=st.integers(1, 50), seed=st.integers(0, 1000))
def test_joined_stores_are_one_store(sizes, k, seed):
    keys = [tiny_store.clustered(size, dim=4, seed=seed + i) for i, size in enumerate(sizes)]
    queries = np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        stores = [tiny_store.store_of(Path(folder) / str(i), [array]) for i, array in enumerate(keys)]
        joined = JoinedRetriever(stores)
        found = joined.search(queries, k)
        true, rows = tiny_store.brute_force(np.concatenate(keys), queries, k)
        np.testing.assert_allclose(found.distances[:, : true.shape[1]], true, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(found.ids[:, : true.shape[1]], rows)
        assert (found.ids[:, true.shape[1] :] == -1).all()
        for id_, value in zip(found.ids[0, : true.shape[1]], found.values[0, : true.shape[1]], strict=True):
            store, local = joined.locate(id_)
            assert store.neighbour_info(local) == joined.neighbour_info(id_)
            assert joined.neighbour_info(id_).token == value == local % 50
            np.testing.assert_array_equal(store.entries.keys(np.array([local]))[0], np.concatenate(keys)[id_])


def test_large_norms_do_not_spoil_distances(tmp_path):
    """States of Whisper have squared norms near 50,000, which ‖k‖² − 2·q·k alone would take for distances."""
    random = np.random.default_rng(0)
    keys = (15 + random.normal(scale=0.05, size=(500, 256))).astype(np.float16)
    queries = keys[:100].astype(np.float32) + random.normal(scale=0.01, size=(100, 256)).astype(np.float32)
    check(LocalRetriever(tiny_store.store_of(tmp_path / "s", [keys])).search(queries, 1), keys, queries, 1, 1e-3)


def test_two_far_clouds_are_told_apart_to_the_last_key(tmp_path):
    """Norms stay large however they are centred, and dozens of keys lie closer together than rounding can tell."""
    random = np.random.default_rng(0)
    cloud = np.where(np.arange(2_000) % 2, 16.0, -16.0)[:, None] + random.normal(scale=0.02, size=(2_000, 256))
    keys = cloud.astype(np.float16)
    queries = keys[:40].astype(np.float32)
    found = LocalRetriever(tiny_store.store_of(tmp_path / "s", [keys])).search(queries, 8)
    np.testing.assert_array_equal(found.ids, tiny_store.brute_force(keys, queries, 8)[1])
    check(found, keys, queries, 8, 1e-6)


def test_of_many_duplicates_the_first_are_given(tmp_path):
    """A sentence that stands in a corpus a hundred times fills more than all spare candidates."""
    keys = tiny_store.clustered(1_000)
    keys[np.arange(5, 1_000, 7)] = keys[5]
    found = LocalRetriever(tiny_store.store_of(tmp_path / "s", [keys])).search(keys[[5, 6]].astype(np.float32), 12)
    np.testing.assert_array_equal(found.ids[0], np.arange(5, 1_000, 7)[:12])
    np.testing.assert_array_equal(found.distances[0], 0)
    check(found, keys, keys[[5, 6]].astype(np.float32), 12)


def test_a_query_that_is_no_number_finds_nothing(tmp_path):
    keys = tiny_store.clustered(100)
    queries = keys[:2].astype(np.float32)
    queries[1, 3] = np.nan
    found = LocalRetriever(tiny_store.store_of(tmp_path / "s", [keys])).search(queries, 3)
    check(type(found)(found.distances[:1], found.values[:1], found.ids[:1]), keys, queries[:1], 3)
    assert (found.ids[1] == -1).all()
    assert np.isposinf(found.distances[1]).all()


@pytest.mark.parametrize("index", ["IVF16,Flat", "IVF16,SQ8", "HNSW8"])
def test_an_index_with_reranking_gives_true_distances(tmp_path, index):
    keys = tiny_store.clustered(3_000)
    store = tiny_store.store_of(tmp_path / "s", [keys[:1_000], keys[1_000:]], index)
    queries = tiny_store.clustered(30, seed=1).astype(np.float32)
    found = LocalRetriever(store, nprobe=16, rerank=8).search(queries, 8)
    named = ((queries[:, None] - keys[found.ids].astype(np.float64)) ** 2).sum(-1)
    np.testing.assert_allclose(found.distances, named, rtol=1e-4)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    np.testing.assert_array_equal(found.values, found.ids % 50)
    if index != "HNSW8":
        check(found, keys, queries, 8)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=5),
    dim=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
def test_a_table_gathers_the_keys_of_all_shards(sizes, dim, seed):
    """sizes: of an array, and of the gap of ids before it; arrays lie anywhere in memory"""
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=(size, dim)).astype(np.float16) for size, _ in sizes]
    firsts = np.cumsum([0, *(size for size, _ in sizes[:-1])]) + np.cumsum([gap for _, gap in sizes])
    table = KeyTable(arrays, firsts.tolist(), dim)
    ids = np.concatenate([first + np.arange(len(array)) for first, array in zip(firsts, arrays, strict=True)])
    order = random.permutation(len(ids))
    np.testing.assert_array_equal(table.rows(ids[order]).numpy(), np.concatenate(arrays)[order])
    for unknown in np.setdiff1d(np.arange(-2, firsts[-1] + 12), ids):
        with pytest.raises(InputError, match="does not hold"):
            table.rows(np.append(ids, unknown))


def test_candidates_are_compared_in_pieces_as_at_once(monkeypatch):
    """Against NumPy; some candidates are missing, some keys are alike, of which the smaller id comes first."""
    keys, queries = tiny_store.clustered(300), tiny_store.clustered(20, seed=4).astype(np.float32)
    keys[100:200] = keys[:100]
    table, random = KeyTable([keys[:120], keys[120:]], [0, 120], 32), np.random.default_rng(0)
    ids = np.stack([random.permutation(300)[:40] for _ in queries])
    ids[:5, 3] = ids[7] = -1
    true = np.where(ids < 0, np.inf, ((queries[:, None] - keys[ids].astype(np.float64)) ** 2).sum(-1))
    order = np.lexsort((ids, true), axis=-1)
    for numbers in (1, 3_000, 1 << 20):
        monkeypatch.setattr(search, "_RESCORED", numbers)
        distances, found = search.rescored(table, queries, ids, 45)
        np.testing.assert_array_equal(found[:, :40], np.take_along_axis(ids, order, axis=1))
        np.testing.assert_allclose(distances[:, :40], np.take_along_axis(true, order, axis=1), rtol=1e-5)
        assert (found[:, 40:] == -1).all()
        assert np.isposinf(distances[:, 40:]).all()


def test_more_neighbours_than_keys(tmp_path):
    keys = tiny_store.clustered(400)
    queries = keys[:3].astype(np.float32)
    for index in ("exact", "IVF4,Flat"):
        store = tiny_store.store_of(tmp_path / index, [keys], index)
        for rerank in (0, 3):
            check(LocalRetriever(store, nprobe=4, rerank=rerank).search(queries, 450), keys, queries, 450)


def test_an_emptied_store_finds_nothing(tmp_path):
    store = tiny_store.store_of(tmp_path / "s", [tiny_store.clustered(20)]).remove("s0")
    found = store.search(np.zeros((2, 32), np.float32), 3)
    assert np.isposinf(found.distances).all()
    assert (found.ids == -1).all()
    assert (found.values == -1).all()
    full = tiny_store.store_of(tmp_path / "t", [tiny_store.clustered(20)])
    joined = JoinedRetriever([store, full])
    found = joined.search(np.zeros((2, 32), np.float32), 3)
    assert joined.stores == [store, full]
    assert {joined.locate(id_)[0] for id_ in found.ids.flat} == {full}


def test_the_same_result_with_any_number_of_threads(tmp_path):
    store = tiny_store.store_of(tmp_path / "s", [tiny_store.clustered(3_000)], "IVF16,SQ8")
    queries = tiny_store.clustered(50, seed=3).astype(np.float32)
    one, two = (LocalRetriever(store, threads=threads).search(queries, 8) for threads in (1, 2))
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_array_equal(one.distances, two.distances)


def test_wrong_questions_are_refused(tmp_path):
    store = tiny_store.store_of(tmp_path / "s", [tiny_store.clustered(20)])
    with pytest.raises(ValueError, match=r"queries must be \[n, 32\]"):
        store.search(np.zeros((2, 31), np.float32), 3)
    with pytest.raises(ValueError, match="k must be at least 1"):
        store.search(np.zeros((2, 32), np.float32), 0)
    with pytest.raises(KeyError):
        store.neighbour_info(20)
    for unknown in (-1, 20):
        with pytest.raises(KeyError, match=f"no key has the id {unknown}"):
            store.entries.keys(np.array([3, unknown, 5]))


def test_stores_of_different_models_are_not_joined(tmp_path):
    one = tiny_store.store_of(tmp_path / "s", [tiny_store.clustered(20)])
    info = json.dumps(read_sealed(tmp_path / "s" / "datastore.json"))
    two = tiny_store.store_of(tmp_path / "t", [tiny_store.clustered(20)])
    (tmp_path / "t" / "datastore.json").write_text(info.replace('"digest": "000', '"digest": "111'))
    from npda.datastore.store import Datastore

    with pytest.raises(InputError, match="different models"):
        JoinedRetriever([one, Datastore.open(two.path)])
