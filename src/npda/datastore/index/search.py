"""Nearest keys: what every search gives, and the one through a Faiss index. Distances are squared L2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import faiss
import numpy as np

from npda.datastore.index.lists import open_mapped
from npda.datastore.index.probing import Probing
from npda.datastore.key_table import KeyTable
from npda.datastore.shards import Entries
from npda.io.cores import cores
from npda.io.errors import InputError

_FEW = 8  # neighbours, for which the codes' mistakes matter most
_RESCORED = 1 << 18  # numbers of candidates' keys held at once: what the processor's cache holds


class Searcher(Protocol):
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] float32 → distances [n, k] float32 rising, ids [n, k] int64; +inf, −1 where missing"""
        ...


class IndexSearcher:
    """Asks a Faiss index.

    nprobe: inverted lists to look at, at most; rerank: candidates per neighbour whose true distance is computed from
    the stored keys; with 0 the index's own, approximate distances are given
    """

    def __init__(self, entries: Entries, path: Path, nprobe: int, rerank: int, threads: int | None = None) -> None:
        self._count = entries.count
        self._rerank = rerank
        self._threads = threads
        try:
            index = open_mapped(path, to_search=True)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[-200:]
            raise InputError(f"{path} cannot be opened by Faiss ({reason}): restore it from a copy.") from None
        self._index = Probing(index, nprobe)
        self._keys = entries.table() if rerank else None

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return self._best(queries, *self._candidates(queries, wanted(k, self._rerank)), k)

    def search_without(self, queries: np.ndarray, k: int, struck: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What ``search`` would give if some keys were not in the store. struck: [n, 2], first and end of their ids"""
        count, more = wanted(k, self._rerank), int((struck[:, 1] - struck[:, 0]).max(initial=0))
        distances, ids = self._candidates(queries, count + more)
        gone = (ids >= struck[:, :1]) & (ids < struck[:, 1:])
        left = np.argsort(gone, axis=1, kind="stable")[:, :count]
        distances, ids = (
            np.take_along_axis(np.where(gone, none, column), left, axis=1)
            for column, none in ((distances, np.float32(np.inf)), (ids, -1))
        )
        return self._best(queries, distances, ids, k)

    def _candidates(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The nearest by the index's own distances: [n, at most count] both"""
        set_threads(self._threads)
        return self._index.search(queries, min(count, max(self._count, 1)))

    def _best(
        self, queries: np.ndarray, distances: np.ndarray, ids: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._keys is not None:
            return rescored(self._keys, queries, ids, k)
        # Codes may put a key slightly nearer than nothing.
        return nearest([missing(len(queries), k)[0], np.maximum(distances, 0)], [missing(len(queries), k)[1], ids], k)


def wanted(k: int, rerank: int) -> int:
    """Candidates for k neighbours: ``rerank`` for each of the first eight, for more three fifths of it do as well."""
    return k if rerank == 0 else max(k, rerank * k - 2 * rerank * max(0, k - _FEW) // 5)


def rescored(keys: KeyTable, queries: np.ndarray, ids: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of some candidates by their true distance. ids: [n, candidates], −1 where missing"""
    if ids.shape[1] < k:
        ids = np.concatenate([ids, missing(len(ids), k - ids.shape[1])[1]], axis=1)
    ids = np.sort(ids, axis=1)  # neighbours on disk are read together, and of equals the smaller id stays first
    some_missing = len(ids) > 0 and ids[:, 0].min() < 0
    candidates = ids.clip(min=keys.lowest) if some_missing else ids
    rows = np.arange(len(ids)).repeat(ids.shape[1])
    distances = true_distances(keys, queries, rows, candidates.ravel()).reshape(ids.shape)
    if some_missing:
        distances[ids < 0] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    order += ids.shape[1] * np.arange(len(ids))[:, None]
    return distances.take(order), ids.take(order)


def true_distances(keys: KeyTable, queries: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Squared distances of some keys.

    queries: [n, dim] float32; rows, ids: [pairs] int64, the query and the key of each → [pairs]
    """
    queries, rows = np.ascontiguousarray(queries, dtype=np.float32), np.ascontiguousarray(rows, dtype=np.int64)
    distances = np.empty(len(ids), dtype=np.float32)
    size, swig = max(1, _RESCORED // keys.dim), faiss.swig_ptr
    places = np.arange(min(size, len(ids)))
    for start in range(0, len(ids), size):
        part = slice(start, start + size)
        compared = keys.rows(ids[part]).float().numpy()
        pairs = swig(queries), swig(rows[part]), swig(compared), swig(places)
        faiss.pairwise_indexed_L2sqr(  # pyright: ignore[reportAttributeAccessIssue]
            keys.dim, len(compared), *pairs, swig(distances[part])
        )
    return distances


def nearest(distances: list[np.ndarray], ids: list[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest of several columns of results, the smaller id first among equals."""
    distance, id_ = np.concatenate(distances, axis=1), np.concatenate(ids, axis=1).astype(np.int64, copy=False)
    distance = np.where(id_ < 0, np.inf, distance).astype(np.float32, copy=False)
    order = np.lexsort((id_, distance), axis=-1)[:, :k]
    return np.take_along_axis(distance, order, axis=1), np.take_along_axis(id_, order, axis=1)


def missing(rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((rows, k), np.inf, dtype=np.float32), np.full((rows, k), -1, dtype=np.int64)


def set_threads(threads: int | None = None) -> None:
    """Faiss's number of threads belongs to the calling thread, so it is set before every search.

    Torch may share it: beyond OMP_NUM_THREADS the next states would be rounded in another way than those before.
    """
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    most = int(allowed) if allowed.isdecimal() and int(allowed) else cores()
    faiss.omp_set_num_threads(threads or min(cores(), most))
