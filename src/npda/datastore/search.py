"""Nearest keys: what every search gives, and the one through a Faiss index. Distances are squared L2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import faiss
import numpy as np

from npda.datastore.lists import inverted, open_mapped
from npda.datastore.shards import Entries
from npda.errors import InputError

_RESCORED = 1 << 18  # numbers of candidates' keys held at once: what the processor's cache holds


class Searcher(Protocol):
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] float32 → distances [n, k] float32 rising, ids [n, k] int64; +inf, −1 where missing"""
        ...


class IndexSearcher:
    """Asks a Faiss index.

    nprobe: inverted lists to look at; rerank: candidates per neighbour whose true distance is computed from the
    stored keys; with 0 the index's own, approximate distances are given
    """

    def __init__(self, entries: Entries, path: Path, nprobe: int, rerank: int, threads: int | None = None) -> None:
        self._entries = entries
        self._rerank = rerank
        self._threads = threads
        try:
            self._index = open_mapped(path, to_search=True)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[-200:]
            raise InputError(f"{path} cannot be opened by Faiss ({reason}): restore it from a copy.") from None
        if (ivf := inverted(self._index)) is not None:
            ivf.nprobe = min(nprobe, ivf.nlist)
        if rerank:
            entries.map_all()

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        set_threads(self._threads)
        distances, ids = self._index.search(queries, min(k * max(self._rerank, 1), max(self._entries.count, 1)))
        if self._rerank:
            return rescored(self._entries, queries, ids, k)
        # Codes may put a key slightly nearer than nothing.
        return nearest([missing(len(queries), k)[0], np.maximum(distances, 0)], [missing(len(queries), k)[1], ids], k)


def rescored(entries: Entries, queries: np.ndarray, ids: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest of some candidates by their true distance. ids: [n, candidates], −1 where missing"""
    rows, columns = np.nonzero(ids >= 0)
    distances = np.full(ids.shape, np.inf, dtype=np.float32)
    distances[rows, columns] = true_distances(entries, queries, rows, ids[rows, columns])
    none = missing(len(queries), k)
    return nearest([distances, none[0]], [ids, none[1]], k)


def true_distances(entries: Entries, queries: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Squared distances of some keys. queries: [n, dim]; rows, ids: [pairs], the query and the key of each → [pairs]"""
    distances = np.empty(len(ids), dtype=np.float32)
    order = np.argsort(ids)  # neighbours on disk are read together
    size = max(1, _RESCORED // entries.dim)
    for start in range(0, len(ids), size):
        part = order[start : start + size]
        differences = entries.keys(ids[part])
        differences -= queries[rows[part]]
        distances[part] = np.einsum("nd,nd->n", differences, differences)
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
    """Faiss's number of threads belongs to the calling thread, so it is set before every search."""
    faiss.omp_set_num_threads(threads or len(os.sched_getaffinity(0)))
