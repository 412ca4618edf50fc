"""Indexes: the choice by size, the same bytes every time, lists merged and filtered as Faiss would hold them."""

import logging
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import tiny_store

from npda.datastore.format import INDEX_FILE
from npda.datastore.index import build as index_module
from npda.datastore.index import lists
from npda.datastore.index.lists import emptied, open_mapped, write_merged
from npda.datastore.index.recall import measure_recall
from npda.datastore.index.search import IndexSearcher, set_threads
from npda.datastore.index.spec import IndexSpec, check_factory, choose, training_sample
from npda.datastore.index.train import centroids, dealt
from npda.datastore.store import Datastore
from npda.io.errors import InputError


@pytest.mark.parametrize(
    ("asked", "count", "dim", "expected"),
    [
        ("auto", 29_999, 256, IndexSpec("exact")),
        ("auto", 30_000, 256, IndexSpec("PCA128,IVF256,PQ64x4fs", 64, 5)),
        ("auto", 99_999, 256, IndexSpec("PCA128,IVF512,PQ64x4fs", 64, 5)),
        ("auto", 640_000, 256, IndexSpec("PCA128,IVF2048,PQ64x4fs", 24, 5)),
        ("auto", 1_200_000, 256, IndexSpec("PCA128,IVF4096,PQ64x4fs", 16, 5)),
        ("auto", 20_000_000, 256, IndexSpec("PCA128,IVF16384,PQ64x4fs", 16, 10)),
        ("auto", 75_000_000, 512, IndexSpec("PCA128,IVF8192,PQ64x4fs", 16, 28)),  # half a million keys train no more
        ("auto", 100_000, 33, IndexSpec("PCA32,IVF1024,PQ16x4fs", 64, 5)),
        ("paper", 75_000_000, 256, IndexSpec("IVF8192,PQ64", 64, 0)),
        ("paper", 100_000, 256, IndexSpec("IVF2564,PQ64", 64, 0)),  # 100,000 / 39
        ("paper", 1_000_000, 96, IndexSpec("IVF8192,PQ48", 64, 0)),  # 64 does not divide 96
        ("paper", 9_983, 256, IndexSpec("exact")),  # 39 · 256 keys train a byte of code
        ("paper", 9_984, 256, IndexSpec("IVF256,PQ64", 64, 0)),
        ("IVF16,Flat", 100, 8, IndexSpec("IVF2,Flat", 2, 0)),
        ("OPQ7,IVF16,PQ7x4", 10_000, 10, IndexSpec("OPQ5,IVF16,PQ5x4", 16, 0)),
        ("HNSW32", 10, 8, IndexSpec("HNSW32", 1, 0)),
        ("exact", 10**9, 8, IndexSpec("exact")),
    ],
)
def test_the_index_fits_the_store(asked, count, dim, expected):
    assert choose(asked, count, dim) == expected
    check_factory(expected.factory, dim)


def test_scaling_down_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        choose("IVF1024,Flat", 390, 8)
    assert "390 keys can train 10 centroids (39 keys each), not 1024" in caplog.text
    assert choose("IVF1024,Flat", 10**6, 8, nprobe=5, rerank=3) == IndexSpec("IVF1024,Flat", 5, 3)
    assert choose("auto", 140_000, 512).rerank == 2 * choose("auto", 140_000, 256).rerank


@pytest.mark.parametrize("asked", ["IVF", "nonsense", "IDMap,Flat", "IVF16,PQ4,RFlat", ""])
def test_what_faiss_cannot_make_is_refused(asked):
    with pytest.raises(InputError):
        check_factory(asked, 32)


@pytest.fixture(scope="module")
def keys() -> np.ndarray:
    return tiny_store.clustered(12_000)


@pytest.fixture(scope="module")
def filled(keys) -> Any:
    """The same index as the store's, made by Faiss alone in one go."""
    index: Any = faiss.index_factory(32, "IVF32,PQ4")
    index.do_polysemous_training = False
    set_threads()
    index.train(keys.astype(np.float32))
    index.add_with_ids(keys.astype(np.float32), np.arange(len(keys)))
    index.nprobe = 8
    return index


def test_merged_lists_are_those_of_faiss(tmp_path, keys, filled, monkeypatch):
    monkeypatch.setattr(index_module, "PART_BYTES", 36_000)  # 3,000 keys of 4 + 8 bytes
    store = tiny_store.store_of(tmp_path / "s", np.split(keys, 8), "IVF32,PQ4")
    assert len(list((tmp_path / ".s.parts").glob("*/0*"))) == 4
    queries = tiny_store.clustered(100, seed=7).astype(np.float32)
    expected, ids = filled.search(queries, 8)
    assert store.index_directory is not None
    index = open_mapped(store.index_directory / INDEX_FILE, to_search=True)
    index.nprobe = 8
    found, found_ids = index.search(queries, 8)
    np.testing.assert_array_equal(found_ids, ids)
    np.testing.assert_array_equal(found, expected)
    # Without re-ranking a store gives the index's distances: squared L2 to what its codes stand for.
    near = store.search(queries, 8)
    decoder: Any = faiss.clone_index(filled)
    decoder.make_direct_map()
    decoded = decoder.reconstruct_n(0, len(keys))[near.ids]
    np.testing.assert_allclose(near.distances, ((queries[:, None] - decoded) ** 2).sum(-1), rtol=1e-3)


@pytest.mark.parametrize("factory", ["IVF32,PQ4x4fs", "PCAR16,IVF32,PQ8x4fs", "IVF32,PQ8x4fsr"])
def test_codes_packed_at_opening_are_those_of_faiss(tmp_path, keys, factory, monkeypatch):
    """Streamed, merged and mapped as plain lists, and yet what Faiss finds by "fast scan" in memory."""
    monkeypatch.setattr(index_module, "PART_BYTES", 36_000)
    store = tiny_store.store_of(tmp_path / "s", np.split(keys, 8), factory)
    assert len(list((tmp_path / ".s.parts").glob("*/0*"))) > 1
    index: Any = faiss.index_factory(32, factory)
    set_threads()
    index.train(keys.astype(np.float32))
    index.add_with_ids(keys.astype(np.float32), np.arange(len(keys)))
    faiss.extract_index_ivf(index).nprobe = 32
    queries = tiny_store.clustered(100, seed=7).astype(np.float32)
    expected, _ = index.search(queries, 8)
    np.testing.assert_allclose(store.search(queries, 8).distances, expected, rtol=1e-4)


def test_codes_of_centroids_find_the_lists(tmp_path, keys):
    """The nearest list by codes is one of the nearest by distance, and what is far stays far."""
    store = tiny_store.store_of(tmp_path / "s", [keys], "IVF32,PQ16x4fs")
    assert store.index_directory is not None
    path = store.index_directory / INDEX_FILE
    plain: Any = faiss.read_index(str(path))
    centroids = plain.quantizer.reconstruct_n(0, 32)
    queries = tiny_store.clustered(200, seed=7).astype(np.float32)
    _, order = tiny_store.brute_force(centroids, queries, 32)
    index = open_mapped(path, to_search=True)
    first = index.quantizer.search(queries, 1)[1][:, 0]
    ranks = (order == first[:, None]).argmax(axis=1)
    assert (ranks == 0).mean() > 0.9
    assert ranks.max() <= 3


def test_keys_go_to_their_nearest_lists(tmp_path, keys):
    """Lists of the file against distances to all centroids."""
    store = tiny_store.store_of(tmp_path / "s", [keys], "IVF32,PQ16x4fs")
    index: Any = faiss.read_index(str(store.path / "index-00000" / INDEX_FILE))
    held = [faiss.rev_swig_ptr(index.invlists.get_ids(i), index.invlists.list_size(i)).copy() for i in range(32)]
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(len(keys)))
    _, order = tiny_store.brute_force(index.quantizer.reconstruct_n(0, 32), keys, 1)
    assert np.mean([(order[ids, 0] == place).mean() for place, ids in enumerate(held)]) > 0.98


def test_centroids_found_in_two_steps_are_nearly_as_good_as_at_once(keys):
    """By the mean distance of keys to the nearest of 100 centroids; a random choice of keys is far worse."""
    sample = keys[:8_000].astype(np.float32)
    two_steps = centroids(sample, 100)
    at_once: Any = faiss.Kmeans(32, 100, niter=10, seed=0)
    at_once.train(sample)
    assert two_steps.shape == (100, 32)

    def distance(chosen: np.ndarray) -> float:
        return float(tiny_store.brute_force(chosen, sample, 1)[0].mean())

    assert distance(two_steps) < 1.05 * distance(at_once.centroids)
    assert distance(sample[::80]) > 1.2 * distance(two_steps)


def test_directions_are_dealt_to_and_fro():
    assert dealt(6, 3).tolist() == [0, 5, 1, 4, 2, 3]
    assert dealt(9, 3).tolist() == [0, 5, 6, 1, 4, 7, 2, 3, 8]
    assert dealt(4, 4).tolist() == [0, 1, 2, 3]


def test_dealt_directions_lose_less_than_directions_turned_at_random(tmp_path):
    """Codes of keys whose variance falls from direction to direction, decoded by Faiss and compared with the keys."""
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(32, 32)))[0]
    keys = ((random.normal(size=(10_000, 32)) * np.exp(-np.arange(32) / 8)) @ turn).astype(np.float16)
    lost = {}
    for factory in ("PCA32,IVF4,PQ16x4fs", "PCAR32,IVF4,PQ16x4fs"):
        store = tiny_store.store_of(tmp_path / factory[:4], [keys], factory)
        index: Any = faiss.read_index(str(store.path / "index-00000" / INDEX_FILE))
        faiss.extract_index_ivf(index).make_direct_map()
        lost[factory[:4]] = ((index.reconstruct_n(0, len(keys)) - keys) ** 2).sum(1).mean()
    assert lost["PCA3"] < 0.8 * lost["PCAR"]


def test_an_index_is_trained_on_what_it_needs():
    assert training_sample("PCAR128,IVF4096,PQ64x4fs", 256) == 40 * 4096
    assert training_sample("IVF16,SQ8", 256) == 65_536
    assert training_sample("IVF65536,PQ64", 1024) == (1 << 30) // 4096


def test_the_file_is_one_faiss_could_have_written(tmp_path, filled, monkeypatch):
    """Written from the lists of a mapped file, an index is byte for byte what Faiss writes from memory."""
    faiss.write_index(filled, str(tmp_path / "faiss"))
    monkeypatch.setattr(lists, "_REOPEN_BYTES", 10_000)
    write_merged(tmp_path / "ours", emptied(open_mapped(tmp_path / "faiss")), [tmp_path / "faiss"])
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "faiss").read_bytes()


@pytest.mark.parametrize(
    "index", ["IVF32,PQ4", "HNSW8", "PCAR16,IVF32,PQ8x4fs", "PCA16,IVF32,PQ8x4fs", "IVF32,RaBitQfs"]
)
def test_the_same_keys_give_the_same_bytes_with_any_number_of_threads(tmp_path, keys, index, monkeypatch):
    written = []
    for threads in (1, 2):
        monkeypatch.setattr(index_module, "set_threads", lambda n=None, t=threads: faiss.omp_set_num_threads(n or t))
        store = tiny_store.store_of(tmp_path / f"{threads}", [keys[:5_000], keys[5_000:10_000]], index)
        written.append(Path(tmp_path / f"{threads}" / "index-00000" / INDEX_FILE).read_bytes())
        assert store.info.index.bytes_per_key == pytest.approx(len(written[0]) / 10_000, abs=0.01)
    assert written[0] == written[1]


@pytest.fixture(scope="module")
def coded(keys, tmp_path_factory) -> Datastore:
    path = tmp_path_factory.mktemp("coded") / "s"
    return tiny_store.store_of(path, [keys[:4_000], keys[4_000:10_000]], "IVF32,PQ4")


def test_recall_is_that_of_leaving_the_sentence_out(keys, coded):
    """Against NumPy: for every query a store without its sentence, the index's codes decoded by Faiss."""
    store, keys = coded, keys[:10_000]
    recall = store.info.index.recall
    assert recall is not None
    assert (recall.queries, recall.keys) == (512, 10_000)

    index: Any = faiss.read_index(str(store.path / "index-00000" / INDEX_FILE))
    index.make_direct_map()
    decoded = index.reconstruct_n(0, 10_000)
    asked = store.entries.sample(512, 8)
    hits = []
    for id_ in asked:
        sentence = np.arange(len(keys)) // 10 == id_ // 10
        query = keys[id_].astype(np.float64)
        true = np.where(sentence, np.inf, ((keys - query) ** 2).sum(-1))
        given = np.where(sentence, np.inf, ((decoded - query) ** 2).sum(-1))
        hits.append(len(np.intersect1d(np.argsort(true)[:8], np.argsort(given)[:8])) / 8)
    assert recall.value == pytest.approx(np.mean(hits), abs=0.02)  # nprobe 32 of 32 lists


def test_recall_is_that_of_a_search_in_a_store_without_the_sentence(tmp_path, keys):
    """With re-ranking: an index filled without the sentence of a query, asked for as many neighbours."""
    keys = keys[:10_000]
    store = tiny_store.store_of(tmp_path / "s", [keys], "IVF32,PQ4")
    path = store.path / "index-00000" / INDEX_FILE
    asking = np.arange(3, 10_000, 400)
    own = np.stack([asking // 10 * 10, asking // 10 * 10 + 10], axis=1)
    queries = keys[asking].astype(np.float32)
    searcher = IndexSearcher(store.entries, path, nprobe=32, rerank=3)
    distances, ids = searcher.search_without(queries, 8, own)
    for row, (first, end) in enumerate(own):
        index: Any = faiss.read_index(str(path))
        index.nprobe = 32
        index.remove_ids(faiss.IDSelectorRange(int(first), int(end)))
        candidates = np.sort(index.search(queries[row : row + 1], 24)[1][0])
        true, order = tiny_store.brute_force(keys[candidates], queries[row : row + 1], 8)
        np.testing.assert_array_equal(ids[row], candidates[order[0]])
        np.testing.assert_allclose(distances[row], true[0], rtol=1e-5)


def test_reranking_raises_recall(coded):
    searcher = IndexSearcher(coded.entries, coded.path / "index-00000" / INDEX_FILE, nprobe=32, rerank=16)
    assert measure_recall(coded.entries, searcher).value > coded.info.index.recall.value + 0.2
