"""Nearest keys: exactly, by comparing with all of them, or through a Faiss index. Distances are squared L2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import faiss
import numpy as np

from npda.datastore.lists import inverted, open_mapped
from npda.datastore.shards import Entries
from npda.errors import InputError

IN_MEMORY_BYTES = 512 << 20  # keys searched exactly are held in memory as float32 up to here, else read each time
_BLOCK_ROWS = 65_536
_RESCORED = 1 << 24  # numbers of candidates' keys held at once


class Searcher(Protocol):
    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] float32 → distances [n, k] float32 rising, ids [n, k] int64; +inf, −1 where missing"""
        ...


class ExactSearcher:
    """Compares every query with every key."""

    def __init__(self, entries: Entries, threads: int | None = None) -> None:
        self._entries = entries
        self._threads = threads
        self._in_memory: tuple[np.ndarray, np.ndarray] | None = None  # ids [n], keys [n, dim] float32
        if 0 < entries.count * entries.dim * 4 <= IN_MEMORY_BYTES:
            blocks = list(entries.blocks(_BLOCK_ROWS))
            ids = np.concatenate([np.arange(first, first + len(keys)) for first, keys in blocks])
            self._in_memory = ids, np.concatenate([keys for _, keys in blocks])
        entries.map_all()

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        set_threads(self._threads)
        distances, ids = missing(len(queries), k)
        if self._in_memory is not None:
            _, found = faiss.knn(queries, self._in_memory[1], k)
            ids = np.where(found < 0, -1, self._in_memory[0][found])
        else:
            for first, keys in self._entries.blocks(_BLOCK_ROWS):
                near, found = faiss.knn(queries, keys, min(k, len(keys)))
                distances, ids = nearest([distances, near], [ids, found + first], k)
        # Faiss subtracts large norms from each other; the distances given are those of the keys themselves.
        return rescored(self._entries, queries, ids, k)


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
    distances = np.full(ids.shape, np.inf, dtype=np.float32)
    rows = max(1, _RESCORED // max(1, ids.shape[1] * entries.dim))
    for start in range(0, len(ids), rows):
        block = ids[start : start + rows]
        found = block >= 0
        owner = np.nonzero(found)[0]
        differences = entries.keys(block[found]) - queries[start + owner]
        distances[start : start + rows][found] = np.einsum("nd,nd->n", differences, differences)
    none = missing(len(queries), k)
    return nearest([distances, none[0]], [ids, none[1]], k)


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
