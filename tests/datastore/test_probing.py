"""Lists that are not visited: none of the nearest keys is in them, and there are always enough candidates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_store

from npda.datastore.format import INDEX_FILE
from npda.datastore.index.lists import inverted, open_mapped
from npda.datastore.index.probing import Probing, list_sizes
from npda.datastore.index.search import wanted
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.store import Datastore


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Datastore:
    keys = tiny_store.clustered(12_000)
    return tiny_store.store_of(tmp_path_factory.mktemp("probing") / "s", [keys], "PCA32,IVF64,PQ16x4fs")


def probing(store: Datastore, nprobe: int) -> Probing:
    assert store.index_directory is not None
    return Probing(open_mapped(Path(store.index_directory) / INDEX_FILE, to_search=True), nprobe)


def test_lists_that_are_left_out_hold_no_neighbours(store, monkeypatch):
    """Against exact search, with a few of the lists and with all of the nearest 32."""
    queries = tiny_store.clustered(300, seed=7).astype(np.float32)
    keys = tiny_store.clustered(12_000)
    _, nearest = tiny_store.brute_force(keys, queries, 8)
    found = LocalRetriever(store, nprobe=32, rerank=16).search(queries, 8)
    recall = (found.ids[:, :, None] == nearest[:, None]).any(2).mean()
    seen: list[float] = []
    judge = Probing._visited
    monkeypatch.setattr(Probing, "_visited", lambda *args: seen.append(judge(*args).mean()) or judge(*args))
    monkeypatch.setattr("npda.datastore.index.probing._REACH", np.inf)
    everywhere = LocalRetriever(store, nprobe=32, rerank=16).search(queries, 8)
    whole = (everywhere.ids[:, :, None] == nearest[:, None]).any(2).mean()
    monkeypatch.undo()
    assert seen == [1.0]
    assert recall > whole - 0.005
    assert recall > 0.95


def test_most_lists_are_left_out(store):
    asked, queries = probing(store, 32), tiny_store.clustered(300, seed=7).astype(np.float32)
    distances, lists = asked._centroids.search(asked._turns[0].apply(queries), 32)
    visited = asked._visited(distances, lists, 8)
    assert visited[:, :8].all()
    assert visited.mean() < 0.5
    assert (np.diff(visited.astype(int), axis=1) <= 0).all(), "the nearest lists, without a gap"


def test_a_query_on_a_centroid_finds_as_many_candidates_as_any(store):
    """Nothing is as near as the centroid itself, yet its list alone holds too few keys."""
    asked = probing(store, 32)
    lists = inverted(asked._index)
    whole = open_mapped(store.index_directory / INDEX_FILE)
    rows = inverted(whole).quantizer.reconstruct_n(0, lists.nlist)
    count = int(np.sort(list_sizes(lists))[-16:].sum())
    distances = np.tile(np.array([[1e-9] + [1.0] * 31], np.float32), (len(rows), 1))
    _, near = asked._centroids.search(rows, 32)
    visited = asked._visited(distances, near, count)
    held = np.where(visited, asked._sizes[near], 0).sum(axis=1)
    assert (held >= np.minimum(count, asked._sizes[near].sum(axis=1))).all()
    assert visited.sum(axis=1).min() >= 8


def test_what_is_asked_for_is_what_is_given(store):
    """More neighbours than the lists in reach hold: as many as all the lists do."""
    queries = tiny_store.clustered(20, seed=3).astype(np.float32)
    distances, ids = probing(store, 64).search(queries, 11_000)
    assert (ids[:, 10_999] >= 0).all()
    assert (np.diff(distances, axis=1) >= 0).all()


@pytest.mark.parametrize(("k", "rerank", "expected"), [(1, 5, 5), (8, 5, 40), (16, 5, 64), (32, 5, 112), (16, 0, 16)])
def test_deeper_neighbours_need_fewer_candidates_each(k, rerank, expected):
    assert wanted(k, rerank) == expected


def test_there_are_never_fewer_candidates_than_neighbours():
    assert all(wanted(k, rerank) >= k for k in range(1, 200) for rerank in range(20))
