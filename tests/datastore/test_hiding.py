"""Neighbours without those that are hidden, against brute force over the rest."""

from pathlib import Path

import numpy as np
import pytest
import tiny_store

from npda.datastore.retrieval.hiding import Hiding


@pytest.mark.parametrize("hidden", [0, 1, 30, 390, 400])
def test_what_is_hidden_is_not_found(tmp_path: Path, hidden: int):
    keys = tiny_store.clustered(400)
    store = tiny_store.store_of(tmp_path / "store", [keys[:250], keys[250:]])
    queries = tiny_store.clustered(20, seed=1).astype(np.float32)
    # The worst case: all that is nearest to the first query.
    nearest = tiny_store.brute_force(keys, queries[:1], 400)[1][0]
    ids = nearest[:hidden].astype(np.int64)
    found = Hiding(store, ids).search(queries, 16)
    left = np.setdiff1d(np.arange(400), ids)
    distances, rows = tiny_store.brute_force(keys[left], queries, 16)
    count = rows.shape[1]
    np.testing.assert_array_equal(found.ids[:, :count], left[rows] if count else rows)
    np.testing.assert_array_equal(found.values[:, :count], (left[rows] if count else rows) % 50)
    np.testing.assert_allclose(found.distances[:, :count], distances, rtol=1e-3)
    assert (found.ids[:, count:] == -1).all()
    assert np.isinf(found.distances[:, count:]).all()
    assert found.distances.shape == found.values.shape == found.ids.shape == (20, 16)
    assert (found.distances.dtype, found.values.dtype, found.ids.dtype) == (np.float32, np.int32, np.int64)
