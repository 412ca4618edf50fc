"""A smaller store from a store (He et al. 2021): fewer keys, fewer dimensions. The model is not needed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from npda.datastore.card import write_card
from npda.datastore.format import ShardInfo, StoreInfo, write_info
from npda.datastore.index.build import build_index
from npda.datastore.index.spec import check_factory, choose
from npda.datastore.projection import Projection
from npda.datastore.pruning import PruneOptions, redundant
from npda.datastore.shards import Chunk, Shard, open_entries, write_shard
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.io.files import atomic_directory
from npda.io.progress import stage, track


@dataclass(frozen=True)
class CompressOptions:
    """dim: dimensions of the new keys; prune: which keys go; index: as for building, by default as the store's was
    asked for. What is None stays as it is.
    """

    dim: int | None = None
    prune: PruneOptions | None = None
    index: str | None = None
    progress: bool = True


def compress(store: Datastore, path: Path, options: CompressOptions) -> Datastore:
    """Write a smaller store beside the old one. Keys get new ids; sentences, positions and sources stay theirs."""
    if os.path.lexists(path):
        raise InputError(f"{path} already exists: remove it, or choose another name.")
    if options.dim is None and options.prune is None:
        raise ValueError("neither a dimension nor pruning is asked for")
    asked = options.index or store.info.index.asked
    check_factory(asked, options.dim or store.dim)
    projection = None
    if options.dim is not None:
        with stage("finding principal components", options.progress):
            projection = Projection.fit(store.entries, options.dim)
    gone = np.zeros(store.entries.limit, dtype=bool)
    if options.prune is not None:
        gone[redundant(store.entries, store.searcher(), options.prune, options.progress)] = True
    with atomic_directory(path) as target:
        info = _write(store, target, projection, gone, asked, options.progress)
        write_info(target, info)
        write_card(target)
    return Datastore.open(path)


def _write(
    store: Datastore, target: Path, projection: Projection | None, gone: np.ndarray, asked: str, progress: bool
) -> StoreInfo:
    """All but ``datastore.json``, which is given back. gone: [ids] bool"""
    shards: list[ShardInfo] = []
    first = 0
    for old in track(store.entries.shards, "writing keys", enabled=progress):
        kept = np.flatnonzero(~gone[old.first : old.first + old.count])
        if len(kept) == 0:
            continue
        chunk = _kept(old, kept)
        if projection is not None:
            chunk = replace(chunk, keys=projection(chunk.keys).astype(np.float16))
        files = write_shard(target, old.info.name, chunk)
        shards.append(old.info.model_copy(update={"first": first, "keys": len(kept), "files": files}))
        first += len(kept)
    whole = projection.after(store.projection) if projection is not None else store.projection
    dim = store.dim if projection is None else projection.dim
    entries = open_entries([(target, shard) for shard in shards], dim)
    parts = target / "parts"
    parts.mkdir()
    spec = choose(asked, entries.count, dim)
    index = build_index(entries, spec, asked, target / "index-00000", parts, progress)
    shutil.rmtree(parts)
    keys = {source.name: 0 for source in store.info.sources}
    for shard in shards:
        keys[shard.source] += shard.keys
    return store.info.model_copy(
        update={
            "dim": dim,
            "count": entries.count,
            "next_id": entries.limit,
            "distance_scale": None,
            "sources": tuple(source.model_copy(update={"keys": keys[source.name]}) for source in store.info.sources),
            "shards": tuple(shards),
            "index": index,
            "projection": whole.save(target) if whole is not None else None,
            "pruned": store.info.pruned + int(gone.sum()),
        }
    )


def _kept(shard: Shard, rows: np.ndarray) -> Chunk:
    """Some entries of a shard with all its sentences, so that their numbers stay."""
    return Chunk(
        keys=shard.open_keys()[rows],
        values=shard.values[rows],
        sentences=shard.sentences[rows],
        positions=shard.positions[rows],
        texts=shard.all_texts(),
    )
