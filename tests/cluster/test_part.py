"""Parts of a store, searched one by one, give the neighbours of the whole store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_store
from brute_force import BruteForce

from npda.cluster.part import PartSearcher, merged, ranges
from npda.datastore.store import Datastore
from npda.io.errors import InputError


def searched(store: Datastore, parts: int, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    found = [PartSearcher(store, *ids).search(queries, k) for ids in ranges(store.entries, parts)]
    return merged(found, k, store.info.index.rerank)


@pytest.fixture(scope="module")
def keys() -> np.ndarray:
    return tiny_store.clustered(6_000)


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize(("index", "rerank"), [("exact", None), ("IVF32,Flat", 0), ("IVF32,SQ8", 3), ("IVF32,PQ8", 4)])
def test_parts_give_ids_and_distances_of_the_whole(tmp_path, keys, parts: int, index: str, rerank: int | None):
    store = tiny_store.store_of(tmp_path / "s", np.split(keys, 3), index, rerank=rerank)
    queries = tiny_store.clustered(50, seed=7).astype(np.float32)
    distances, ids = searched(store, parts, queries, 8)
    whole = store.search(queries, 8)
    np.testing.assert_array_equal(ids, whole.ids)
    np.testing.assert_array_equal(distances, whole.distances)


def test_codes_of_four_bits_differ_only_where_codes_are_equally_near(tmp_path, keys):
    """They know few distances: which of several equal candidates is the last to be compared again is chance."""
    store = tiny_store.store_of(tmp_path / "s", [keys], "PCA32,IVF32,PQ16x4fs", rerank=20)
    queries = tiny_store.clustered(200, seed=7).astype(np.float32)
    distances, ids = searched(store, 4, queries, 8)
    whole = store.search(queries, 8)
    same = (ids == whole.ids).all(axis=1)
    assert same.mean() > 0.9
    np.testing.assert_array_equal(distances[same], whole.distances[same])
    nearest = BruteForce(keys, np.arange(len(keys))).search(queries, 8).ids
    found, by_whole = ((each[:, :, None] == nearest[:, None]).any(2).mean() for each in (ids, whole.ids))
    assert abs(found - by_whole) < 0.005


def test_ranges_hold_equally_many_keys_also_where_a_source_was_removed(tmp_path, keys):
    store = tiny_store.store_of(tmp_path / "s", np.split(keys, 6), "exact").remove("s2").remove("s0")
    cuts = ranges(store.entries, 3)
    present = np.flatnonzero(store.entries.values() >= 0)
    counts = [int(((present >= first) & (present < end)).sum()) for first, end in cuts]
    assert sum(counts) == len(store) == 4_000
    assert max(counts) - min(counts) <= 1
    queries = tiny_store.clustered(20, seed=3).astype(np.float32)
    np.testing.assert_array_equal(searched(store, 3, queries, 5)[1], store.search(queries, 5).ids)


def test_fewer_keys_than_asked_for_and_an_index_without_lists(tmp_path, keys):
    store = tiny_store.store_of(tmp_path / "s", [keys[:3]], "exact")
    distances, ids = searched(store, 2, keys[:2].astype(np.float32), 5)
    assert (ids[:, 3:] == -1).all()
    assert np.isinf(distances[:, 3:]).all()
    np.testing.assert_array_equal(ids[:, 0], [0, 1])
    graph = tiny_store.store_of(Path(tmp_path / "g"), [keys[:500]], "HNSW8")
    with pytest.raises(InputError, match="cannot be cut into parts"):
        PartSearcher(graph, 0, 100)
