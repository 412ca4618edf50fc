"""What an index learns from a sample of the keys: main directions, centroids, codes.

From Faiss's fixed seeds on an evenly drawn sample; the same numbers every time and with any number of threads.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from npda.datastore.index.lists import inverted, plain, residual
from npda.datastore.index.search import set_threads
from npda.datastore.index.spec import IndexSpec, training_sample
from npda.datastore.shards import Entries

_SEED = 0
_AT_ONCE = 8192  # centroids; the time of finding them grows with their square
_ROUNDS, _LAST_ROUNDS = 10, 2


def train(entries: Entries, spec: IndexSpec) -> Any:
    """An index without entries."""
    index: Any = faiss.index_factory(entries.dim, plain(spec.factory), faiss.METRIC_L2)
    lists = inverted(index)
    if lists is not None and hasattr(lists, "do_polysemous_training"):
        # Minutes of simulated annealing for a Hamming filter that no search here uses.
        lists.do_polysemous_training = False
        lists.use_precomputed_table = -1  # for searching; half a gigabyte beside the sample
        lists.by_residual = residual(spec.factory)
    sample = entries.keys(entries.sample(training_sample(spec.factory, entries.dim), _SEED))
    set_threads(1)  # sums of products round differently in parts
    directed = _find_directions(index, sample)
    set_threads()
    if not directed:
        index.train(sample)
        return index
    sample = turned(index, sample)
    if lists is not None and lists.nlist > _AT_ONCE:
        lists.quantizer.add(centroids(sample, lists.nlist))
    faiss.downcast_index(index.index).train(sample)
    index.is_trained = True
    return index


def _find_directions(index: Any, sample: np.ndarray) -> bool:
    """Train the main directions an index turns to and deal them out to the pieces of its codes. → whether it turns

    A piece of a product code tells the same number of keys apart whether they differ much in it or little. So each gets
    directions of large and of small variance, which loses a third less than directions turned at random ("PCAR").
    """
    transform = faiss.downcast_VectorTransform(index.chain.at(0)) if hasattr(index, "chain") else None
    if not isinstance(transform, faiss.PCAMatrix):
        return False
    transform.train(sample)
    codes = getattr(inverted(index), "pq", None)
    if codes is None or transform.random_rotation:
        return True
    order = dealt(transform.d_out, codes.M)
    matrix = faiss.vector_to_array(transform.A).reshape(transform.d_out, transform.d_in)
    faiss.copy_array_to_vector(matrix[order].ravel(), transform.A)
    faiss.copy_array_to_vector(faiss.vector_to_array(transform.b)[order], transform.b)
    return True


def dealt(directions: int, pieces: int) -> np.ndarray:
    """The order in which pieces of equally many directions get some of each end, as one deals to and fro."""
    rounds = np.arange(directions).reshape(-1, pieces)
    rounds[1::2] = rounds[1::2, ::-1]
    return rounds.T.ravel()


def turned(index: Any, keys: np.ndarray) -> np.ndarray:
    """Keys as an index has them after what it does to them first; by one thread, see ``train``."""
    threads = faiss.omp_get_max_threads()
    set_threads(1)
    for place in range(index.chain.size() if hasattr(index, "chain") else 0):
        keys = faiss.downcast_VectorTransform(index.chain.at(place)).apply(keys)
    set_threads(threads)
    return keys


def centroids(keys: np.ndarray, count: int) -> np.ndarray:
    """k-means in two steps, for many centroids: a few parts, each of which gets its share of them, and then rounds over
    all for keys at the borders. keys: [n, dim] → [count, dim]
    """
    parts = _k_means(keys, round(count**0.5))
    owners = parts.index.search(keys, 1)[1][:, 0]
    sizes = np.bincount(owners, minlength=parts.k)
    shares = np.diff(np.rint(np.append(0, np.cumsum(sizes)) * (count / len(keys))).astype(np.int64))
    found = [_k_means(keys[owners == part], int(share)).centroids for part, share in enumerate(shares) if share]
    return _k_means(keys, count, _LAST_ROUNDS, np.concatenate(found)).centroids


def _k_means(keys: np.ndarray, count: int, rounds: int = _ROUNDS, start: np.ndarray | None = None) -> Any:
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": len(keys)}
    means: Any = faiss.Kmeans(keys.shape[1], count, niter=rounds, seed=_SEED, **limits)
    means.train(keys, init_centroids=start)
    return means
