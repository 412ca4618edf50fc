"""Stores held by a cluster give the neighbours of one machine, also when machines are killed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tiny_store

from npda.datastore.store import Datastore
from npda.io.errors import InputError

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'npda[cluster]'")

from npda.cluster import search as search_module  # noqa: E402
from npda.cluster.connection import connected  # noqa: E402
from npda.cluster.search import Parts, SearchOnCluster, SpreadStore, spread  # noqa: E402

QUERIES = tiny_store.clustered(40, seed=7).astype(np.float32)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Datastore:
    keys = tiny_store.clustered(6_000)
    return tiny_store.store_of(tmp_path_factory.mktemp("store") / "s", np.split(keys, 3), "IVF32,SQ8", rerank=4)


@pytest.fixture(scope="module")
def joined(machines) -> Iterator[None]:
    with connected(machines.address):
        yield


def assert_same(found, whole) -> None:
    np.testing.assert_array_equal(found.ids, whole.ids)
    np.testing.assert_array_equal(found.distances, whole.distances)
    np.testing.assert_array_equal(found.values, whole.values)


@pytest.mark.slow
def test_two_parts_with_replicas_survive_a_machine(machines, joined, store):
    """Both parts have a replica on the machine that is killed."""
    doomed = machines.add(num_cpus=2)
    options = SearchOnCluster(parts=2, replicas=2, cpus=0.5)
    with spread([store], machines.address, options) as (held,):
        whole = store.search(QUERIES, 8)
        assert_same(held.search(QUERIES, 8), whole)
        large = np.repeat(QUERIES, 40, axis=0)  # goes by way of the object store
        assert_same(held.search(large, 3), store.search(large, 3))
        machines.kill(doomed)
        for _ in range(20):
            assert_same(held.search(QUERIES, 8), whole)
        assert isinstance(held, SpreadStore)
        assert held.left_out == 0


@pytest.mark.slow
def test_a_part_that_does_not_answer_may_be_left_out_and_comes_back(joined, store, monkeypatch):
    monkeypatch.setattr(search_module, "_LEFT_OUT", 0.0)
    parts = Parts(store, SearchOnCluster(parts=2, partial=True, cpus=0.25))
    held = SpreadStore(store, parts)
    try:
        held.ready()
        whole = store.search(QUERIES, 8)
        assert_same(held.search(QUERIES, 8), whole)
        ray.kill(parts._actors[1][0], no_restart=False)
        left_out = held.left_out
        found = held.search(QUERIES, 8)
        assert held.left_out == left_out + 1
        assert (found.ids < 3_000).all()
        monkeypatch.setattr(search_module, "_LEFT_OUT", 300.0)
        assert_same(held.search(QUERIES, 8), whole)
    finally:
        parts.close()


@pytest.mark.slow
def test_a_store_that_has_changed_is_not_searched(joined, store, tmp_path):
    other = Datastore(store.path, store.info.model_copy(update={"count": store.info.count - 1}))
    parts = Parts(other, SearchOnCluster(parts=1, cpus=0.25))
    with pytest.raises(InputError, match="has changed since it was opened"):
        parts.ready()
