"""Small datastores for tests: a random model that can read, sentences, and stores of made-up keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tiny
import torch

from npda.corpus.pairs import Pair
from npda.datastore.format import BackboneInfo, ShardInfo, SourceInfo, StoreInfo, write_info
from npda.datastore.index.build import build_index
from npda.datastore.index.spec import choose
from npda.datastore.shards import Chunk, Entries, Shard, write_shard
from npda.datastore.store import Datastore
from npda.models.speech2text import Speech2Text
from npda.models.text_encoder import TextEncoder, TextEncoderSize

_WORDS = [
    "the",
    "floor",
    "is",
    "yours",
    "we",
    "opened",
    "window",
    "and",
    "closed",
    "door",
    "der",
    "Boden",
    "ist",
    "schön",
    "aber",
    "kalt",
    "wo",
    "die",
    "Küche",
]


def backbone(seed: int = 0, languages: tuple[str, ...] = ()) -> Speech2Text:
    """A model with a random text encoder."""
    model = tiny.backbone(seed, languages)
    torch.manual_seed(seed + 1)
    size = TextEncoderSize(vocabulary=len(tiny.vocabulary()), dim=model.dim, layers=1, heads=2, ffn=32)
    model.text_encoder = TextEncoder(size).eval()
    return model


def pairs(count: int, seed: int = 0) -> list[Pair]:
    random = np.random.default_rng(seed)

    def text() -> str:
        return " ".join(random.choice(_WORDS, size=random.integers(1, 7)))

    return [Pair(text(), text(), id=str(number)) for number in range(count)]


def clustered(count: int, dim: int = 32, seed: int = 0) -> np.ndarray:
    """Keys with some structure, as decoder states have. → [count, dim] float16"""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(scale=3, size=(50, dim))
    return (centres[random.integers(0, 50, count)] + random.normal(size=(count, dim))).astype(np.float16)


def store_of(
    path: Path, keys: list[np.ndarray], index: str = "exact", sentence: int = 10, rerank: int | None = None
) -> Datastore:
    """A store of given keys: one source "s0", "s1" … an array, sentences of ``sentence`` keys, values = ids mod 50."""
    shards, first = [], 0
    for number, array in enumerate(keys):
        rows = np.arange(len(array))
        texts = [(f"source {number} {i}", f"target {number} {i}") for i in range(-(-len(array) // sentence))]
        chunk = Chunk(array, (first + rows) % 50, rows // sentence, rows % sentence, texts)
        files = write_shard(path, f"{number:05}", chunk)
        shards.append(
            ShardInfo(name=f"{number:05}", source=f"s{number}", first=first, keys=len(array),
                      sentences=len(chunk.texts), files=files)
        )  # fmt: skip
        first += len(array)
    dim = keys[0].shape[1]
    entries = Entries([Shard(path, shard, dim) for shard in shards], dim)
    spec = choose(index, first, dim, rerank=rerank)
    parts = path.parent / f".{path.name}.parts"
    parts.mkdir()
    sources = tuple(
        SourceInfo(name=s.source, kind="text", sentences=s.sentences, keys=s.keys, skipped=0, digest="0" * 64)
        for s in shards
    )
    info = StoreInfo(
        backbone=BackboneInfo(name="none", digest="0" * 64), vocabulary="0" * 64, vocabulary_size=50, dim=dim,
        count=first, next_id=first, next_shard=len(shards), sources=sources, shards=tuple(shards),
        index=build_index(entries, spec, index, path / "index-00000", parts, progress=False),
    )  # fmt: skip
    write_info(path, info)
    return Datastore.open(path)


def brute_force(keys: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest by NumPy in double precision: squared distances and rows, [n, k]."""
    differences = queries[:, None, :].astype(np.float64) - keys[None].astype(np.float64)
    distances = (differences**2).sum(-1)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), order
