"""``datastore.json``: what a datastore says of itself.

STORE/
  datastore.json            written last and replaced atomically: what it names is the store, all else is litter
  shards/00000/             one chunk of sentences: keys, values, sentence ids, positions, texts
  index-00000/index.faiss   absent when every search looks at every key
  projection.safetensors    only where keys have fewer dimensions than the model's states
  README.md                 the card, for people: see ``npda.datastore.card``
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npda.io import limits
from npda.io.digests import file_digest
from npda.io.errors import InputError
from npda.io.sealed import opened, write_sealed

FORMAT = 1
INFO = "datastore.json"
SHARDS = "shards"
INDEX_FILE = "index.faiss"
PROJECTION_FILE = "projection.safetensors"
KEY_LOCATION = "decoder output after the final layer norm"
RECALL_K = 8

# Removed sources leave gaps between ids, and a value is held for every id: a gigabyte, or 64 times what keys need.
_MOST_GAPS, _GAPS = 1 << 28, 64

# spoken: text, read aloud by a voice and heard; glossary: bare terms, as older stores hold them
Kind = Literal["text", "speech", "glossary", "spoken"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]  # of a file or folder inside the store: no way out
Count = Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileInfo(_Part):
    """What a file must be."""

    bytes: Count
    sha256: Digest

    @classmethod
    def of(cls, path: Path) -> FileInfo:
        return cls(bytes=path.stat().st_size, sha256=file_digest(path))

    def check_size(self, path: Path) -> None:
        """Refuse a file that is missing or cut off; the checksum is for ``verify``."""
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise InputError(f"{path} is missing: restore the datastore from its copy, or build it again.")
        if size != self.bytes:
            raise InputError(
                f"{path} has {size:,} bytes instead of {self.bytes:,}: "
                "restore the datastore from its copy, or build it again."
            )


class ShardInfo(_Part):
    """A chunk of sentences. Its keys have the ids first … first + keys − 1 for as long as it lives."""

    name: Name
    source: str
    first: Count
    keys: Count
    sentences: Count
    files: dict[Name, FileInfo]


class SourceInfo(_Part):
    """Where keys came from. digest: of the sentences that were read, those left out included"""

    name: Annotated[str, Field(min_length=1)]
    kind: Kind
    sentences: Count
    keys: Count
    skipped: Count  # sentences the model has no room for
    digest: Digest
    languages: tuple[str, ...] = ()  # of the targets, as far as they are named
    voice: str = ""  # that read the text aloud, if one did
    licence: str = ""  # under which the text may be used, if it was told


class Recall(_Part):
    """The share of the true ``RECALL_K`` nearest keys that a search finds, and how it was measured."""

    value: Annotated[float, Field(ge=0, le=1)]
    queries: Count
    keys: Count  # in the store when it was measured


class IndexInfo(_Part):
    """How the keys are searched. asked: in the user's words; factory: what became of it, for Faiss, or "exact" """

    asked: str
    factory: str
    nprobe: Annotated[int, Field(ge=1, le=limits.NPROBE.most)] = 1
    # candidates per neighbour whose true distance is computed; 0: trust the index
    rerank: Annotated[int, Field(ge=0, le=limits.RERANK.most)] = 0
    directory: Name | None = None
    files: dict[Name, FileInfo] = {}
    bytes_per_key: Annotated[float, Field(ge=0)] = 0.0
    recall: Recall | None = None


class ProjectionInfo(_Part):
    """How the model's states became keys. dim: of a state; variance: the share of theirs that the keys have"""

    dim: Annotated[int, Field(ge=1, le=limits.DIM.most)]
    variance: Annotated[float, Field(ge=0, le=1)]
    file: FileInfo


class BackboneInfo(_Part):
    """The model whose decoder made the keys, and whose decoder alone may ask for them."""

    name: str
    digest: Digest


class ModelFingerprint(_Part):
    """What a store remembers of its model, and what a store of ready keys needs to know. dim: of the states"""

    backbone: BackboneInfo
    vocabulary: Digest
    vocabulary_size: Count
    dim: Annotated[int, Field(ge=1, le=limits.DIM.most)]


class StoreInfo(_Part):
    """All of ``datastore.json``."""

    format: Literal[1] = FORMAT
    backbone: BackboneInfo
    vocabulary: Digest
    vocabulary_size: Count
    dim: Annotated[int, Field(ge=1, le=limits.DIM.most)]
    dtype: Literal["float16"] = "float16"
    key: str = KEY_LOCATION
    count: Count
    next_id: Count  # first key id never used
    next_shard: Count
    distance_scale: Annotated[float, Field(gt=0)] | None = None  # median squared distance to the 8th neighbour
    sources: tuple[SourceInfo, ...]
    shards: tuple[ShardInfo, ...]
    index: IndexInfo
    projection: ProjectionInfo | None = None
    pruned: Count = 0  # keys left out because others say the same

    @property
    def state_dim(self) -> int:
        """Width of the model's states, which ask; the keys' own unless these are projected."""
        return self.dim if self.projection is None else self.projection.dim

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which ways into the decoder made the keys."""
        return tuple(dict.fromkeys(source.kind for source in self.sources))

    @property
    def languages(self) -> tuple[str, ...]:
        """Of all targets; empty when not every source names its own."""
        named = [source.languages for source in self.sources]
        return tuple(sorted({language for part in named for language in part})) if all(named) else ()

    def sizes(self) -> dict[str, int]:
        """Bytes on disk. keys are part of the shards; total is the shards, the index and the projection."""
        shards = [file for shard in self.shards for file in shard.files.items()]
        keys = sum(file.bytes for name, file in shards if name == "keys.npy")
        index = sum(file.bytes for file in self.index.files.values())
        whole = sum(file.bytes for _, file in shards)
        projection = 0 if self.projection is None else self.projection.file.bytes
        return {"keys": keys, "index": index, SHARDS: whole, "total": whole + index + projection}

    def digest(self) -> str:
        """Changes with every key, value, text and index, not with what was measured afterwards."""
        # Languages and voices are in the keys already, and a licence changes none of them; stores that do not name
        # theirs keep their digest. So do those that were never compressed.
        described = {"__all__": {"languages", "voice", "licence"}}
        apart: dict[str, Any] = {"distance_scale": True, "index": {"recall"}, "sources": described}
        apart |= {"pruned": True} | ({"projection": True} if self.projection is None else {})
        content = self.model_dump_json(exclude=apart)
        return hashlib.sha256(content.encode()).hexdigest()


def read_info(store: Path) -> StoreInfo:
    path = store / INFO
    if not path.is_file():
        raise InputError(f"{store} is not a datastore: it has no {INFO}; make one with `npda build`.")
    return parse_info(path, path.read_bytes())


def parse_info(path: Path, text: bytes) -> StoreInfo:
    """What stands in a file ``datastore.json``. path: for messages"""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable JSON ({error}): restore it from a copy.") from None
    try:
        content = opened(content)
    except ValueError as error:
        raise InputError(f"{path}: {error}: restore it from a copy.") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT or isinstance(found, bool):
        raise InputError(f"{path} has the format {found!r}, this npda reads format {FORMAT}: build the store again.")
    try:
        info = StoreInfo.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {place}: {first['msg']}: restore it from a copy.") from None
    _check_sums(path, info)
    return info


def write_info(store: Path, info: StoreInfo) -> None:
    """Replace ``datastore.json``: the moment at which a change of the store happens."""
    write_sealed(store / INFO, info.model_dump(mode="json"))


def _check_sums(path: Path, info: StoreInfo) -> None:
    by_source = {source.name: source.keys for source in info.sources}
    found = dict.fromkeys(by_source, 0)
    end = 0
    for shard in info.shards:
        if shard.source not in by_source or shard.first < end:
            raise InputError(f"{path}: shards.{shard.name} does not fit the others: restore it from a copy.")
        found[shard.source] += shard.keys
        end = shard.first + shard.keys
    if info.next_id > max(_MOST_GAPS, _GAPS * info.count):
        raise InputError(f"{path}: ids up to {info.next_id:,} for {info.count:,} keys: restore it from a copy.")
    if found != by_source or sum(found.values()) != info.count or end > info.next_id:
        raise InputError(f"{path}: the counts of sources and shards disagree: restore it from a copy.")
