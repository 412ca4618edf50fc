"""One chunk of sentences on disk, opened memory-mapped, and many of them as one table of entries."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from npda.datastore.format import SHARDS, FileInfo, ShardInfo
from npda.datastore.key_table import KeyTable
from npda.io.errors import InputError

LONGEST_SENTENCE = 1 << 20  # tokens; no sentence has as many
_TEXTS = "texts.bin"
_ARRAYS = {
    "keys.npy": np.float16,  # [n, dim]
    "values.npy": np.int32,  # [n]
    "sentences.npy": np.int32,  # [n], counted from 0 in every shard
    "positions.npy": np.int32,  # [n], of the value among the target's tokens
    "offsets.npy": np.int64,  # [2 · sentences + 1] into texts.bin: source, target, source, target …
}


@dataclass(frozen=True)
class Chunk:
    """The entries of some sentences, in their order.

    keys: [n, dim] float16, values: [n] int32, sentences: [n] int32, positions: [n] int32;
    texts: (source, target) of every sentence
    """

    keys: np.ndarray
    values: np.ndarray
    sentences: np.ndarray
    positions: np.ndarray
    texts: Sequence[tuple[str, str]]


def write_shard(store: Path, name: str, chunk: Chunk) -> dict[str, FileInfo]:
    """Write a shard so that its folder is there whole or not at all."""
    folder = store / SHARDS / name
    # Two machines may make the same shard, one of which was taken for lost.
    temporary = folder.with_name(f".{name}.{secrets.token_hex(4)}")
    temporary.mkdir(parents=True)
    encoded = [text.encode() for pair in chunk.texts for text in pair]
    arrays = {
        "keys.npy": chunk.keys,
        "values.npy": chunk.values,
        "sentences.npy": chunk.sentences,
        "positions.npy": chunk.positions,
        "offsets.npy": np.cumsum([0, *map(len, encoded)]),
    }
    for file, array in arrays.items():
        save_array(temporary / file, array.astype(_ARRAYS[file], order="C", copy=False))
    (temporary / _TEXTS).write_bytes(b"".join(encoded))
    files = {}
    for file in (*arrays, _TEXTS):
        with open(temporary / file, "rb") as written:
            os.fsync(written.fileno())
        files[file] = FileInfo.of(temporary / file)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        os.rename(temporary, folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(temporary)  # the other machine was faster; its bytes are the same
    return files


def save_array(path: Path, array: np.ndarray) -> None:
    """As ``np.save``, which does not notice if a full disk takes all of it but the last bytes."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.reshape(-1).view(np.uint8).data)


def remove_unfinished(store: Path) -> None:
    """Remove what is left of shards whose writers were killed."""
    for folder in (store / SHARDS).glob(".*"):
        shutil.rmtree(folder)


class Shard:
    """A shard on disk; nothing is read before it is asked for.

    Only keys stay mapped: every mapping holds a file open, and a large store has hundreds of shards.
    """

    def __init__(self, store: Path, info: ShardInfo, dim: int) -> None:
        self.folder = store / SHARDS / info.name
        self.info = info
        self.first = info.first
        self.count = info.keys
        self.dim = dim
        self._shapes = {
            "keys.npy": (info.keys, dim),
            "offsets.npy": (2 * info.sentences + 1,),
        }
        for name in (*_ARRAYS, _TEXTS):
            if name not in info.files:
                raise InputError(f"{self.folder / name} is missing in datastore.json: restore it from a copy.")
        for name, file in info.files.items():
            file.check_size(self.folder / name)

    @cached_property
    def keys(self) -> np.ndarray:
        return self.open_keys()

    def open_keys(self) -> np.ndarray:
        """The keys through a mapping of its own, whose pages are given back with it."""
        return self._open("keys.npy")

    @property
    def values(self) -> np.ndarray:
        return self._open("values.npy")

    @property
    def sentences(self) -> np.ndarray:
        return self._open("sentences.npy")

    @property
    def positions(self) -> np.ndarray:
        return self._open("positions.npy")

    @property
    def offsets(self) -> np.ndarray:
        return self._open("offsets.npy")

    def texts(self, sentence: int) -> tuple[str, str]:
        """Source and target of a sentence."""
        places = self.offsets[2 * sentence : 2 * sentence + 3].tolist() if sentence >= 0 else []
        if len(places) != 3 or not 0 <= places[0] <= places[1] <= places[2] <= self.info.files[_TEXTS].bytes:
            raise self._damaged("offsets.npy")
        start, middle, end = places
        with open(self.folder / _TEXTS, "rb") as file:
            file.seek(start)
            content = file.read(end - start)
        try:
            return content[: middle - start].decode(), content[middle - start :].decode()
        except UnicodeDecodeError:
            raise self._damaged(_TEXTS) from None

    def all_texts(self) -> list[tuple[str, str]]:
        """Source and target of every sentence."""
        ends = self.offsets.tolist()
        content = (self.folder / _TEXTS).read_bytes()
        if ends[0] != 0 or ends[-1] != len(content) or any(end < start for start, end in pairwise(ends)):
            raise self._damaged("offsets.npy")
        try:
            parts = [content[start:end].decode() for start, end in pairwise(ends)]
        except UnicodeDecodeError:
            raise self._damaged(_TEXTS) from None
        return list(zip(parts[::2], parts[1::2], strict=True))

    def _damaged(self, name: str) -> InputError:
        return InputError(f"{self.folder / name} does not fit the other files: restore it from a copy.")

    def _open(self, name: str) -> np.ndarray:
        path = self.folder / name
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be opened ({error}): restore it from a copy.") from None
        shape = self._shapes.get(name, (self.count,))
        if array.dtype != _ARRAYS[name] or array.shape != shape:
            raise InputError(
                f"{path} holds {array.dtype} {list(array.shape)} instead of "
                f"{np.dtype(_ARRAYS[name])} {list(shape)}: restore it from a copy."
            )
        return array


class Entries:
    """The entries of several shards, addressed by key id. Ids have gaps where a source was removed.

    keep_mapped: keys once read stay mapped, for searching; otherwise their pages are given back at once, for building
    """

    def __init__(self, shards: Sequence[Shard], dim: int, keep_mapped: bool = False) -> None:
        self.shards = tuple(shards)
        self.dim = dim
        self._keep_mapped = keep_mapped
        self.count = sum(shard.count for shard in shards)
        self.limit = max((shard.first + shard.count for shard in shards), default=0)  # all ids are below
        self._firsts = np.array([shard.first for shard in shards], dtype=np.int64)

    def locate(self, id_: int) -> tuple[Shard, int]:
        """The shard of a key and its row there."""
        place = int(np.searchsorted(self._firsts, id_, side="right")) - 1
        if place < 0 or id_ - self.shards[place].first >= self.shards[place].count:
            raise KeyError(f"no key has the id {id_}")
        return self.shards[place], int(id_ - self.shards[place].first)

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """ids: [n] int64, fastest when they rise → [n, dim] float32"""
        if (ids[1:] < ids[:-1]).any():
            order = np.argsort(ids)
            keys = np.empty((len(ids), self.dim), dtype=np.float32)
            keys[order] = self.keys(ids[order])
            return keys
        if len(ids) and (self.count == 0 or ids[0] < self._firsts[0]):
            raise KeyError(f"no key has the id {ids[0]}")
        found = np.empty((len(ids), self.dim), dtype=np.float16)
        cuts = np.append(np.searchsorted(ids, self._firsts), len(ids))
        for place in np.flatnonzero(np.diff(cuts)):
            shard, rows = self.shards[place], slice(cuts[place], cuts[place + 1])
            if ids[rows][-1] - shard.first >= shard.count:
                raise KeyError(f"no key has the id {ids[rows][-1]}")
            np.take(
                self._mapped(shard), ids[rows] - shard.first, axis=0, out=found[rows], mode="clip"
            )  # "raise" copies
        return _single(found)

    def table(self) -> KeyTable:
        """All keys, mapped now, so that they can be read even after their source was removed."""
        firsts = [shard.first for shard in self.shards]
        return KeyTable([self._mapped(shard) for shard in self.shards], firsts, self.dim)

    def _mapped(self, shard: Shard) -> np.ndarray:
        return shard.keys if self._keep_mapped else shard.open_keys()

    def values(self) -> np.ndarray:
        """The value of every id below ``limit``: [limit] int32, −1 where a source was removed."""
        values = np.full(self.limit, -1, dtype=np.int32)
        for shard in self.shards:
            values[shard.first : shard.first + shard.count] = shard.values
        return values

    def blocks(self, rows: int) -> Iterator[tuple[int, np.ndarray]]:
        """All keys in turn: first id, [at most rows, dim] float32."""
        for shard in self.shards:
            keys = shard.open_keys()
            for start in range(0, shard.count, rows):
                yield shard.first + start, _single(np.array(keys[start : start + rows]))

    def sample(self, count: int, seed: int) -> np.ndarray:
        """Ids of at most ``count`` keys, drawn evenly, in rising order."""
        if count < self.count:
            # One key of each of `count` equal stretches: even, sorted, and no list of all ids is needed.
            inside = np.random.default_rng(seed).random(count)
            chosen = np.unique(((np.arange(count) + inside) * (self.count / count)).astype(np.int64))
        else:
            chosen = np.arange(self.count)
        sizes = np.array([shard.count for shard in self.shards], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
        places = np.searchsorted(starts, chosen, side="right") - 1
        return chosen - starts[places] + self._firsts[places]

    def sentence_range(self, id_: int) -> tuple[int, int]:
        """The ids of all keys of the same sentence: first, end. They stand together."""
        shard, row = self.locate(id_)
        sentences = shard.sentences
        start, end = np.searchsorted(sentences, [sentences[row], sentences[row] + 1])
        return shard.first + int(start), shard.first + int(end)


def open_entries(shards: Sequence[tuple[Path, ShardInfo]], dim: int, keep_mapped: bool = False) -> Entries:
    """shards: each with the store it lies in; see ``Entries``"""
    return Entries([Shard(store, info, dim) for store, info in shards], dim, keep_mapped)


def _single(keys: np.ndarray) -> np.ndarray:
    """float16 → float32; torch takes a tenth of NumPy's time for it."""
    return torch.from_numpy(keys).float().numpy()
