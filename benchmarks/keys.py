"""Made-up keys that lie as decoder states do, as many as one likes, and states that ask for them.

A key is the sum of a place for its token, one for its context and a step of its own, all in one space whose variance
falls from direction to direction: the first 32 of 256 hold 61 %, 64 hold 84 %, 128 hold 97 %, as the states of the
shipped model do (of its 128 directions 16 hold 62 %, 32 hold 83 %, 64 hold 96 %). Tokens and contexts follow Zipf's
law, the step leads into 10 directions that some tokens share, and a little noise into all. Half of the variance is the
token's, a third the context's. Who asks is drawn alike, with twice the noise: speech is not quite where text is.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from npda.datastore.format import BackboneInfo, IndexInfo, ShardInfo, SourceInfo, StoreInfo, write_info
from npda.datastore.index.build import build_index
from npda.datastore.index.spec import EXACT, choose
from npda.datastore.shards import Chunk, write_shard
from npda.datastore.store import Datastore
from npda.io.files import atomic_directory, cache_dir

TOKENS, CONTEXTS = 8_000, 60_000
GROUPS, DIRECTIONS = 64, 10  # of tokens with the same directions to step into
LENGTH = 17.7  # of a state, about: the shipped model's
SHARES = 0.5, 0.33, 0.15, 0.02  # of the variance: token, context, step, noise
_FALL = 36.0  # directions after which the variance has fallen to 1/e
FIRST_TOKEN = 4  # before it come the vocabulary's own: start, end and the like
_BLOCK = 65_536
_SENTENCE = 25  # keys
_BESIDE = 256  # bytes a key at most, beside it: what it stands for, its code in the index and in the parts of it


def lack_of_disk(count: int, dim: int = 256) -> str | None:
    """Why a store of so many keys and its index cannot be made here, or None where they can or are there already."""
    if _path(count, dim).is_dir():
        return None
    needed = count * (2 * dim + _BESIDE)
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if needed <= free:
        return None
    return f"{count:,} keys need {needed / 1e9:.0f} GB of disk in {folder}, where {free / 1e9:.0f} GB are free"


def _path(count: int, dim: int) -> Path:
    return cache_dir() / "benchmarks" / f"store-{count}x{dim}"


def store(count: int, dim: int = 256) -> Datastore:
    """A store of so many keys without an index, drawn once and kept; sentences have 25 keys."""
    path = _path(count, dim)
    if path.is_dir():
        return Datastore.open(path)
    with atomic_directory(path) as folder:
        shards = [_shard(folder, first, min(_BLOCK, count - first), dim) for first in range(0, count, _BLOCK)]
        sentences = sum(shard.sentences for shard in shards)
        none = "0" * 64
        source = SourceInfo(name="made up", kind="text", sentences=sentences, keys=count, skipped=0, digest=none)
        info = StoreInfo(
            backbone=BackboneInfo(name="none", digest=none), vocabulary=none, vocabulary_size=TOKENS, dim=dim,
            count=count, next_id=count, next_shard=len(shards), sources=(source,), shards=tuple(shards),
            index=IndexInfo(asked=EXACT, factory=EXACT),
        )  # fmt: skip
        write_info(folder, info)
    return Datastore.open(path)


def indexed(
    unindexed: Datastore, asked: str, nprobe: int | None = None, rerank: int | None = None
) -> tuple[Datastore, float]:
    """The same store with an index, built once and kept, and the seconds of the processor that it took."""
    spec = choose(asked, len(unindexed), unindexed.dim, nprobe, rerank)
    name = "index-" + re.sub("[^a-z0-9]+", "-", spec.factory.lower())
    kept = unindexed.path / f"{name}.json"
    if not kept.is_file():
        worked = time.process_time()
        with TemporaryDirectory(dir=unindexed.path) as parts:
            built = build_index(unindexed.entries, spec, asked, unindexed.path / name, Path(parts), progress=False)
        taken = time.process_time() - worked
        kept.write_text(json.dumps({"seconds": taken, "index": built.model_dump()}), encoding="utf-8")
    found = json.loads(kept.read_text(encoding="utf-8"))
    index = IndexInfo.model_validate({**found["index"], "nprobe": spec.nprobe, "rerank": spec.rerank})
    return Datastore(unindexed.path, unindexed.info.model_copy(update={"index": index})), found["seconds"]


def queries(count: int, dim: int = 256) -> np.ndarray:
    """States that are no keys: [count, dim] float32"""
    return _drawn(count, dim, seed=0, noise=2.0)[0]


def _shard(folder: Path, first: int, count: int, dim: int) -> ShardInfo:
    keys, tokens = _drawn(count, dim, seed=1 + first // _BLOCK)
    rows = np.arange(count)
    texts = [("", "")] * (-(-count // _SENTENCE))
    values = FIRST_TOKEN + tokens % (TOKENS - FIRST_TOKEN)
    chunk = Chunk(keys.astype(np.float16), values, rows // _SENTENCE, rows % _SENTENCE, texts)
    name = f"{first // _BLOCK:05}"
    files = write_shard(folder, name, chunk)
    return ShardInfo(name=name, source="made up", first=first, keys=count, sentences=len(texts), files=files)


def _drawn(count: int, dim: int, seed: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Keys [count, dim] float32 and their tokens [count]."""
    space, random = _space(dim), np.random.default_rng(seed)
    contexts = _zipf(random, count, CONTEXTS)
    tokens = space.owners[contexts]
    drawn = space.tokens[tokens] + space.contexts[contexts]
    groups = tokens % GROUPS
    for group in range(GROUPS):
        rows = np.flatnonzero(groups == group)
        drawn[rows] += random.standard_normal((len(rows), DIRECTIONS), dtype=np.float32) @ space.steps[group]
    drawn += noise * space.noise * random.standard_normal(drawn.shape, dtype=np.float32)
    return drawn, tokens


@dataclass(frozen=True)
class _Space:
    """tokens: [TOKENS, dim]; contexts: [CONTEXTS, dim]; owners: [CONTEXTS] their tokens; steps: [GROUPS, DIRECTIONS,
    dim] where steps lead to; noise: its standard deviation
    """

    tokens: np.ndarray
    contexts: np.ndarray
    owners: np.ndarray
    steps: np.ndarray
    noise: np.float32


@lru_cache(maxsize=1)
def _space(dim: int) -> _Space:
    random = np.random.default_rng(1_000_000)
    spread = np.exp(-np.arange(dim) / _FALL)
    turned = np.linalg.qr(random.standard_normal((dim, dim)))[0] * np.sqrt(spread / spread.sum())[:, None]
    token, context, step, noise = (LENGTH * share**0.5 for share in SHARES)

    def places(rows: int, length: float) -> np.ndarray:
        return random.standard_normal((rows, dim), dtype=np.float32) @ (length * turned).astype(np.float32)

    steps = places(GROUPS * DIRECTIONS, step / DIRECTIONS**0.5).reshape(GROUPS, DIRECTIONS, dim)
    owners = _zipf(random, CONTEXTS, TOKENS)
    return _Space(places(TOKENS, token), places(CONTEXTS, context), owners, steps, np.float32(noise / dim**0.5))


def _zipf(random: np.random.Generator, count: int, kinds: int) -> np.ndarray:
    """[count] of 0 … kinds − 1, the n-th as often as 1/(n + 10)"""
    shares = 1 / (np.arange(kinds) + 10.0)
    return np.searchsorted(np.cumsum(shares / shares.sum()), random.random(count)).clip(max=kinds - 1)
