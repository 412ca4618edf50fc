"""Making an index: trained on a sample, filled shard by shard, merged into one memory-mapped file.

Training and adding give the same bytes every time and with any number of threads; graph indexes such as HNSW only with
one, so those are filled by a single thread. An index without inverted lists is filled in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from npda.datastore.format import INDEX_FILE, FileInfo, IndexInfo, ShardInfo
from npda.datastore.index.lists import (
    emptied,
    inverted,
    nearest_list,
    open_mapped,
    streamable,
    write_index,
    write_merged,
)
from npda.datastore.index.recall import measure_recall
from npda.datastore.index.search import IndexSearcher, set_threads
from npda.datastore.index.spec import EXACT, IndexSpec
from npda.datastore.index.train import train, turned
from npda.datastore.shards import Entries, Shard
from npda.datastore.workers import Workers
from npda.io.files import atomic_write
from npda.io.progress import stage, track

PART_BYTES = 256 << 20  # of codes added in memory before they are written
MEASURED_AGAIN = 5_000_000  # keys up to which an edit measures recall again, since that reads them all
_BLOCK_ROWS = 65_536


def build_index(
    entries: Entries,
    spec: IndexSpec,
    asked: str,
    target: Path,
    parts: Path,
    progress: bool = True,
    workers: Workers | None = None,
) -> IndexInfo:
    """Train and fill an index of all entries in the folder ``target``; parts: folder for what can be resumed"""
    if spec.factory == EXACT:
        return IndexInfo(asked=asked, factory=EXACT)
    parts = _of_these(entries, parts)
    trained = parts / "trained.faiss"
    if not trained.is_file():
        with stage(f"training the index {spec.factory}", progress):
            index = train(entries, spec)
        with atomic_write(trained) as temporary:
            write_index(index, temporary)
    if streamable(open_mapped(trained)):
        _merge(target, trained, [], entries.shards, parts, progress, workers)
    else:
        with stage("indexing", progress):
            _fill(target, faiss.read_index(str(trained)), entries)
    with stage("measuring recall", progress):
        return describe(entries, spec, asked, target)


def extend_index(
    entries: Entries,
    info: IndexInfo,
    old: Path,
    target: Path,
    added: Sequence[Shard],
    parts: Path,
    progress: bool = True,
    workers: Workers | None = None,
) -> IndexInfo:
    """The index in the folder ``old`` with more shards, without adding the rest again.

    entries: all of them, the added ones included
    """
    spec = IndexSpec(info.factory, info.nprobe, info.rerank)
    if not streamable(open_mapped(old / INDEX_FILE)):
        return build_index(entries, spec, info.asked, target, parts, progress, workers)
    parts = _of_these(entries, parts)
    _merge(target, old / INDEX_FILE, [old / INDEX_FILE], added, parts, progress, workers)
    with stage("measuring recall", progress):
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


def searcher(entries: Entries, spec: IndexSpec, folder: Path) -> IndexSearcher:
    return IndexSearcher(entries, folder / INDEX_FILE, spec.nprobe, spec.rerank)


def _merge(
    target: Path,
    trained: Path,
    old: Sequence[Path],
    added: Sequence[Shard],
    parts: Path,
    progress: bool,
    workers: Workers | None,
) -> None:
    """Lists of old files and of shards in one file. trained: any index file trained alike"""
    most = PART_BYTES // (inverted(open_mapped(trained)).code_size + 8)
    if workers is not None:  # a part for everyone
        most = min(most, sum(shard.count for shard in added) // len(workers) + 1)
    groups = [
        PartTask(trained, parts / f"{group[0].info.name}-{group[-1].info.name}.faiss", tuple(map(_place, group)))
        for group in _groups(added, most)
    ]
    made = ((task, _add_part(None, task)) for task in groups) if workers is None else workers.map(_add_part, groups)
    for _ in track(made, "indexing", len(groups), enabled=progress):
        pass
    target.mkdir(parents=True, exist_ok=True)
    with atomic_write(target / INDEX_FILE) as temporary:
        write_merged(temporary, emptied(open_mapped(trained)), [*old, *(task.path for task in groups)])


@dataclass(frozen=True)
class PartTask:
    """Shards whose keys are to be added to an empty index. trained: its file; path: where it goes; shards: their store,
    what it says of them, and the width of their keys"""

    trained: Path
    path: Path
    shards: tuple[tuple[Path, ShardInfo, int], ...]


def _place(shard: Shard) -> tuple[Path, ShardInfo, int]:
    return shard.folder.parents[1], shard.info, shard.dim


def _add_part(_: Any, task: PartTask) -> None:
    """Write a part, unless it is there."""
    if task.path.is_file():
        return
    index = emptied(open_mapped(task.trained))
    set_threads()
    nearest = nearest_list(inverted(index))
    for place in task.shards:
        _add(index, Shard(*place), nearest)
    with atomic_write(task.path) as temporary:
        write_index(index, temporary)


def _of_these(entries: Entries, parts: Path) -> Path:
    """A folder for pieces of the index of these very entries: after a change of some, others would not fit."""
    content = [(shard.info.name, shard.first, shard.info.files["keys.npy"].sha256) for shard in entries.shards]
    folder = parts / hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    return folder


def _fill(target: Path, empty: Any, entries: Entries) -> None:
    index = empty if inverted(empty) is not None else faiss.IndexIDMap(empty)
    set_threads(1)
    for shard in entries.shards:
        _add(index, shard)
    target.mkdir(parents=True, exist_ok=True)
    with atomic_write(target / INDEX_FILE) as temporary:
        write_index(index, temporary)


def _add(index: Any, shard: Shard, nearest: Any = None) -> None:
    """nearest: finds the list of a key, see ``nearest_list``"""
    keys = shard.open_keys()
    lists: Any = faiss.downcast_index(index.index) if hasattr(index, "chain") else index
    for start in range(0, shard.count, _BLOCK_ROWS):
        block = turned(index, keys[start : start + _BLOCK_ROWS].astype(np.float32))
        ids = np.arange(len(block)) + shard.first + start
        if nearest is None:
            lists.add_with_ids(block, ids)
        else:
            found, swig = nearest.search(block, 1)[1], faiss.swig_ptr
            lists.add_core(len(block), swig(block), swig(ids), swig(found))
        index.ntotal = lists.ntotal


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
