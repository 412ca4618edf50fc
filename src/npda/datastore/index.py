"""Making an index: trained on a sample, filled shard by shard, merged into one memory-mapped file.

Training (k-means from Faiss's fixed seed on an evenly drawn sample) and adding give the same bytes every time and
with any number of threads; graph indexes such as HNSW only with one, so those are filled by a single thread. An
index without inverted lists is filled in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from npda.datastore.format import INDEX_FILE, FileInfo, IndexInfo
from npda.datastore.lists import emptied, inverted, open_mapped, plain, residual, streamable, write_merged
from npda.datastore.recall import measure_recall
from npda.datastore.search import IndexSearcher, Searcher, set_threads
from npda.datastore.shards import Entries, Shard
from npda.datastore.spec import EXACT, IndexSpec, training_sample
from npda.files import atomic_write
from npda.progress import track

PART_BYTES = 256 << 20  # of codes added in memory before they are written
MEASURED_AGAIN = 5_000_000  # keys up to which an edit measures recall again, since that reads them all
_BLOCK_ROWS = 65_536
_SEED = 0


def build_index(
    entries: Entries, spec: IndexSpec, asked: str, target: Path, parts: Path, progress: bool = True
) -> IndexInfo:
    """Train and fill an index of all entries in the folder ``target``; parts: folder for what can be resumed"""
    if spec.factory == EXACT:
        return IndexInfo(asked=asked, factory=EXACT)
    trained = parts / "trained.faiss"
    if not trained.is_file():
        index = _train(entries, spec)
        with atomic_write(trained) as temporary:
            faiss.write_index(index, str(temporary))
    if streamable(open_mapped(trained)):
        _merge(target, trained, [], entries.shards, parts, progress)
    else:
        _fill(target, faiss.read_index(str(trained)), entries)
    return describe(entries, spec, asked, target)


def extend_index(
    entries: Entries,
    info: IndexInfo,
    old: Path,
    target: Path,
    added: Sequence[Shard],
    parts: Path,
    progress: bool = True,
) -> IndexInfo:
    """The index in the folder ``old`` with more shards, without adding the rest again.

    entries: all of them, the added ones included
    """
    spec = IndexSpec(info.factory, info.nprobe, info.rerank)
    if not streamable(open_mapped(old / INDEX_FILE)):
        return build_index(entries, spec, info.asked, target, parts, progress)
    _merge(target, old / INDEX_FILE, [old / INDEX_FILE], added, parts, progress)
    return describe(entries, spec, info.asked, target, info)


def filter_index(entries: Entries, info: IndexInfo, old: Path, target: Path, parts: Path) -> IndexInfo:
    """The index in the folder ``old`` with the given entries only: lists are copied, not made anew."""
    spec = IndexSpec(info.factory, info.nprobe, info.rerank)
    if not streamable(open_mapped(old / INDEX_FILE)):
        return build_index(entries, spec, info.asked, target, parts, progress=False)
    firsts = np.array([shard.first for shard in entries.shards])
    ends = firsts + [shard.count for shard in entries.shards]

    def keep(ids: np.ndarray) -> np.ndarray:
        place = np.searchsorted(firsts, ids, side="right") - 1
        return (place >= 0) & (ids < ends[place])

    target.mkdir(parents=True, exist_ok=True)
    with atomic_write(target / INDEX_FILE) as temporary:
        write_merged(temporary, emptied(open_mapped(old / INDEX_FILE)), [old / INDEX_FILE], keep)
    return describe(entries, spec, info.asked, target, info)


def describe(entries: Entries, spec: IndexSpec, asked: str, target: Path, before: IndexInfo | None = None) -> IndexInfo:
    """What ``datastore.json`` says of an index. before: the index this one continues"""
    file = FileInfo.of(target / INDEX_FILE)
    recall = before.recall if before else None
    if recall is None or entries.count <= MEASURED_AGAIN:
        recall = measure_recall(entries, searcher(entries, spec, target))
    return IndexInfo(
        asked=asked,
        factory=spec.factory,
        nprobe=spec.nprobe,
        rerank=spec.rerank,
        directory=target.name,
        files={INDEX_FILE: file},
        bytes_per_key=round(file.bytes / max(entries.count, 1), 2),
        recall=recall,
    )


def searcher(entries: Entries, spec: IndexSpec, folder: Path) -> Searcher:
    return IndexSearcher(entries, folder / INDEX_FILE, spec.nprobe, spec.rerank)


def _train(entries: Entries, spec: IndexSpec) -> Any:
    index: Any = faiss.index_factory(entries.dim, plain(spec.factory), faiss.METRIC_L2)
    if (ivf := inverted(index)) is not None and hasattr(ivf, "do_polysemous_training"):
        # Minutes of simulated annealing for a Hamming filter that no search here uses.
        ivf.do_polysemous_training = False
        ivf.use_precomputed_table = -1  # for searching; half a gigabyte beside the sample
        ivf.by_residual = residual(spec.factory)
    sample = entries.keys(entries.sample(training_sample(spec.factory, entries.dim), _SEED))
    set_threads(1)
    directed = _find_directions(index, sample)
    set_threads()
    if directed:
        faiss.downcast_index(index.index).train(_turned(index, sample))
        index.is_trained = True
    else:
        index.train(sample)
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


def _turned(index: Any, keys: np.ndarray) -> np.ndarray:
    """Keys as the lists of an index get them; by one thread, since sums of products round differently in parts."""
    threads = faiss.omp_get_max_threads()
    set_threads(1)
    for place in range(index.chain.size()):
        keys = faiss.downcast_VectorTransform(index.chain.at(place)).apply(keys)
    set_threads(threads)
    return keys


def dealt(directions: int, pieces: int) -> np.ndarray:
    """The order in which pieces of equally many directions get some of each end, as one deals to and fro."""
    rounds = np.arange(directions).reshape(-1, pieces)
    rounds[1::2] = rounds[1::2, ::-1]
    return rounds.T.ravel()


def _merge(
    target: Path, trained: Path, old: Sequence[Path], added: Sequence[Shard], parts: Path, progress: bool
) -> None:
    """Lists of old files and of shards in one file. trained: any index file trained alike"""
    files = list(old)
    groups = list(_groups(added, PART_BYTES // (inverted(open_mapped(trained)).code_size + 8)))
    for number, shards in enumerate(track(groups, "indexing", enabled=progress)):
        path = parts / f"{number:05}.faiss"
        files.append(path)
        if path.is_file():
            continue
        index = emptied(open_mapped(trained))
        set_threads()
        for shard in shards:
            _add(index, shard)
        with atomic_write(path) as temporary:
            faiss.write_index(index, str(temporary))
    target.mkdir(parents=True, exist_ok=True)
    with atomic_write(target / INDEX_FILE) as temporary:
        write_merged(temporary, emptied(open_mapped(trained)), files)


def _fill(target: Path, empty: Any, entries: Entries) -> None:
    index = empty if inverted(empty) is not None else faiss.IndexIDMap(empty)
    set_threads(1)
    for shard in entries.shards:
        _add(index, shard)
    target.mkdir(parents=True, exist_ok=True)
    with atomic_write(target / INDEX_FILE) as temporary:
        faiss.write_index(index, str(temporary))


def _add(index: Any, shard: Shard) -> None:
    keys = shard.open_keys()
    for start in range(0, shard.count, _BLOCK_ROWS):
        block = keys[start : start + _BLOCK_ROWS].astype(np.float32)
        ids = np.arange(len(block)) + shard.first + start
        if hasattr(index, "chain"):
            faiss.downcast_index(index.index).add_with_ids(_turned(index, block), ids)
            index.ntotal = index.index.ntotal
        else:
            index.add_with_ids(block, ids)


def _groups(shards: Sequence[Shard], keys: int) -> Iterator[list[Shard]]:
    """Shards that follow each other, until they have so many keys."""
    group: list[Shard] = []
    for shard in shards:
        group.append(shard)
        if sum(member.count for member in group) >= keys:
            yield group
            group = []
    if group:
        yield group
