"""Adding and removing sources. New files are written first, then datastore.json is replaced, then old files go.

An interruption before the replacement leaves the old store, one after it the new; what neither names is removed by the
next edit.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from npda.datastore.build import encode_source, plan
from npda.datastore.card import renew_card
from npda.datastore.fingerprint import check_belongs
from npda.datastore.format import SHARDS, IndexInfo, ShardInfo, StoreInfo, read_info
from npda.datastore.index.build import build_index, extend_index, filter_index
from npda.datastore.index.spec import EXACT, choose
from npda.datastore.pins import held_versions, replace_info
from npda.datastore.projection import Projection
from npda.datastore.shards import Entries, open_entries
from npda.datastore.source import BuildOptions, Source
from npda.datastore.workspace import Workspace, open_workspace
from npda.io.errors import InputError
from npda.io.locks import locked
from npda.models.backbone import Backbone

_WORK = ".edit"


def append_source(backbone: Backbone, source: Source, path: Path, options: BuildOptions = BuildOptions()) -> StoreInfo:
    """Add a source to a store, or go on where an interrupted addition stopped."""
    check_belongs(str(path), read_info(path), backbone)
    with locked(path):
        info = read_info(path)
        tidy(path, info)
        if any(source.name == known.name for known in info.sources):
            raise InputError(f"{path} already has a source {source.name!r}: remove it first, or give another name.")
        with open_workspace(path / _WORK) as work:
            work.continue_or_restart({**plan(backbone, source, options), "store": info.digest()})
            projection = None if info.projection is None else Projection.load(path, info.projection, info.dim)
            added, shards = encode_source(backbone, source, work, options, info.next_id, info.next_shard, projection)
            old = [(path, shard) for shard in info.shards]
            entries = open_entries([*old, *((work.store, shard) for shard in shards)], info.dim)
            target = work.store / _next_directory(path)
            new = info.model_copy(
                update={
                    "count": entries.count,
                    "next_id": entries.limit,
                    "next_shard": int(shards[-1].name) + 1,
                    "sources": (*info.sources, added),
                    "shards": (*info.shards, *shards),
                    "index": _extended(info.index, entries, path, target, len(shards), work, options),
                }
            )
            _publish(work, path, shards, new)
        tidy(path, new)
    return new


def remove_source(path: Path, name: str) -> StoreInfo:
    """Remove a source from a store."""
    read_info(path)
    with locked(path):
        info = read_info(path)
        tidy(path, info)
        if all(name != source.name for source in info.sources):
            known = ", ".join(source.name for source in info.sources) or "none"
            raise InputError(f"{path} has no source {name!r}; it has {known}.")
        shards = tuple(shard for shard in info.shards if shard.source != name)
        entries = open_entries([(path, shard) for shard in shards], info.dim)
        with open_workspace(path / _WORK) as work:
            work.continue_or_restart({"remove": name, "store": info.digest()})
            if not shards:
                index = IndexInfo(asked=info.index.asked, factory=EXACT)
            elif info.index.directory is None:
                index = info.index
            else:
                old, target = path / info.index.directory, work.store / _next_directory(path)
                index = filter_index(entries, info.index, old, target, work.index_parts)
            new = info.model_copy(
                update={
                    "count": entries.count,
                    "sources": tuple(source for source in info.sources if source.name != name),
                    "shards": shards,
                    "index": index,
                }
            )
            _publish(work, path, [], new)
        tidy(path, new)
    return new


def tidy(path: Path, info: StoreInfo) -> None:
    """Remove shards and indexes of no version that anybody reads: also what interrupted edits left behind."""
    versions = [info, *held_versions(path)]
    shards = {shard.name for version in versions for shard in version.shards}
    for folder in (path / SHARDS).glob("*"):
        if folder.name not in shards:
            shutil.rmtree(folder)
    indexes = {version.index.directory for version in versions}
    for folder in path.glob("index-*"):
        if folder.name not in indexes:
            shutil.rmtree(folder)
    if (path / _WORK).is_dir() and Workspace(path / _WORK).plan.get("store") != info.digest():
        shutil.rmtree(path / _WORK)  # of an edit that was done, or can be no longer


def _extended(
    index: IndexInfo, entries: Entries, path: Path, target: Path, added: int, work: Workspace, options: BuildOptions
) -> IndexInfo:
    """The index of a grown store: extended, or chosen anew if all keys were compared so far."""
    if index.directory is not None:
        new = entries.shards[len(entries.shards) - added :]
        old = path / index.directory
        return extend_index(entries, index, old, target, new, work.index_parts, options.progress, options.workers)
    spec = choose(index.asked, entries.count, entries.dim)
    return build_index(entries, spec, index.asked, target, work.index_parts, options.progress, options.workers)


def _publish(work: Workspace, path: Path, shards: list[ShardInfo], info: StoreInfo) -> None:
    (path / SHARDS).mkdir(exist_ok=True)
    for shard in shards:
        os.rename(work.store / SHARDS / shard.name, path / SHARDS / shard.name)
    if info.index.directory is not None and (work.store / info.index.directory).is_dir():
        os.rename(work.store / info.index.directory, path / info.index.directory)
    replace_info(path, info)
    renew_card(path)


def _next_directory(path: Path) -> str:
    """A folder for the next index: none of those that are there, of which one may still be read."""
    numbers = [int(number) for folder in path.glob("index-*") if (number := folder.name[6:]).isdecimal()]
    return f"index-{max(numbers, default=-1) + 1:05}"
