"""Looking at every byte of a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npda.datastore.format import INDEX_FILE, FileInfo, read_info
from npda.datastore.index.lists import open_mapped
from npda.datastore.projection import Projection
from npda.datastore.shards import LONGEST_SENTENCE, Shard, open_entries
from npda.io.errors import InputError
from npda.io.progress import track

_ROWS = 65_536
_REMEDY = "restore the datastore from its copy, or build it again."


def verify(path: str | Path, progress: bool = True) -> None:
    """Check checksums, counts, keys and values; the first broken file is an InputError that names it."""
    path = Path(path)
    info = read_info(path)
    for shard in track(
        open_entries([(path, shard) for shard in info.shards], info.dim).shards, "verifying", enabled=progress
    ):
        for name, file in shard.info.files.items():
            _check_sum(shard.folder / name, file)
        _check_keys(shard)
        _check_numbers(shard, info.vocabulary_size)
    if info.projection is not None:
        Projection.load(path, info.projection, info.dim)
    if info.index.directory is not None:
        folder = path / info.index.directory
        for name, file in info.index.files.items():
            _check_sum(folder / name, file)
        held = open_mapped(folder / INDEX_FILE).ntotal
        if held != info.count:
            raise InputError(f"{folder / INDEX_FILE} holds {held:,} keys instead of {info.count:,}: {_REMEDY}")


def _check_sum(path: Path, file: FileInfo) -> None:
    file.check_size(path)
    if FileInfo.of(path) != file:
        raise InputError(f"{path} does not have the checksum of datastore.json: {_REMEDY}")


def _check_keys(shard: Shard) -> None:
    keys = shard.open_keys()
    for start in range(0, shard.count, _ROWS):
        if not np.isfinite(keys[start : start + _ROWS]).all():
            raise InputError(f"{shard.folder / 'keys.npy'} holds keys that are not numbers: {_REMEDY}")


def _check_numbers(shard: Shard, vocabulary_size: int) -> None:
    ranges = {
        "values": (shard.values, vocabulary_size),
        "sentences": (shard.sentences, shard.info.sentences),
        "positions": (shard.positions, LONGEST_SENTENCE),
    }
    for name, (numbers, limit) in ranges.items():
        if numbers.min() < 0 or numbers.max() >= limit:
            raise InputError(f"{shard.folder / name}.npy holds numbers outside 0 … {limit - 1}: {_REMEDY}")
    texts = shard.folder / "texts.bin"
    offsets = shard.offsets
    if (np.diff(offsets) < 0).any() or offsets[0] != 0 or offsets[-1] != texts.stat().st_size:
        raise InputError(f"{shard.folder / 'offsets.npy'} does not fit texts.bin: {_REMEDY}")
    steps = np.diff(shard.sentences)
    if (steps < 0).any():
        raise InputError(f"{shard.folder / 'sentences.npy'} is out of order: {_REMEDY}")
    if (np.diff(shard.positions)[steps == 0] <= 0).any():
        raise InputError(f"{shard.folder / 'positions.npy'} is out of order: {_REMEDY}")
