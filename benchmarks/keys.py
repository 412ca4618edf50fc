"""Made-up keys that lie as decoder states do, as many as one likes, and states that ask for them.

A key is the sum of a place for its token, one for its context and a step of its own, all in one space whose variance
falls from direction to direction: the first 32 of 256 hold 61 %, 64 hold 84 %, 128 hold 96 %, as the states of the
shipped model do (of its 128 directions 16 hold 62 %, 32 hold 83 %, 64 hold 96 %). Tokens and contexts follow Zipf's
law, the step leads into 10 directions that some tokens share, and a little noise into all. Half of the variance is the
token's, a third the context's. Who asks is drawn alike, with twice the noise: speech is not quite where text is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from npda.files import atomic_write, cache_dir

TOKENS, CONTEXTS = 8_000, 60_000
GROUPS, DIRECTIONS = 64, 10  # of tokens with the same directions to step into
LENGTH = 17.7  # of a state, about: the shipped model's
SHARES = 0.5, 0.33, 0.15, 0.02  # of the variance: token, context, step, noise
_FALL = 36.0  # directions after which the variance has fallen to 1/e
_BLOCK = 65_536


def keys(count: int, dim: int = 256) -> Path:
    """A file of keys [count, dim] float16, drawn once and kept."""
    path = cache_dir() / "benchmarks" / f"keys-{count}x{dim}.npy"
    if not path.is_file():
        with atomic_write(path) as temporary:
            written = np.lib.format.open_memmap(temporary, "w+", np.float16, (count, dim))
            for number, start in enumerate(range(0, count, _BLOCK)):
                block = written[start : start + _BLOCK]
                block[:] = _drawn(len(block), dim, number + 1)
            written.flush()
    return path


def queries(count: int, dim: int = 256) -> np.ndarray:
    """States that are no keys: [count, dim] float32"""
    return _drawn(count, dim, seed=0, noise=2.0)


def _drawn(count: int, dim: int, seed: int, noise: float = 1.0) -> np.ndarray:
    """→ [count, dim] float32"""
    space, random = _space(dim), np.random.default_rng(seed)
    contexts = _zipf(random, count, CONTEXTS)
    tokens = space.owners[contexts]
    drawn = space.tokens[tokens] + space.contexts[contexts]
    groups = tokens % GROUPS
    for group in range(GROUPS):
        rows = np.flatnonzero(groups == group)
        drawn[rows] += random.standard_normal((len(rows), DIRECTIONS), dtype=np.float32) @ space.steps[group]
    drawn += noise * space.noise * random.standard_normal(drawn.shape, dtype=np.float32)
    return drawn


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
