"""Which index a store gets: by name, by size, or in Faiss's own words."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

import faiss

from npda.io.errors import InputError

logger = logging.getLogger(__name__)

EXACT = "exact"
EXACT_BELOW = 30_000  # keys; from there on lists that are looked at in part are faster, and find the same
TRAINING_KEYS = 1_000_000
_TRAINING_BYTES = 1 << 30
_POINTS = 39  # training keys a centroid, below which Faiss's k-means gives poor centroids
_CODE_KEYS = 65_536  # from which codes and directions are learned
_NPROBE = 64
_PAPER = "IVF8192,PQ64"
# With these, 96 of 100 nearest keys are found at any size. In small stores they are spread over more of the lists, in
# large ones more keys lie so near each other that their codes cannot tell which is nearer.
_FEW_KEYS, _FEWER_LISTS, _MORE_LISTS = 100_000, 2, 4  # lists by the root of the keys, below and above
_MOST_PROBES, _LEAST_PROBES, _SPREAD, _FALL = 64, 16, 160_000, 0.7  # keys from which on fewer lists do
_RERANK = 5  # candidates a neighbour
_RERANKED_WIDTH = 256  # dimensions; of wider keys codes tell less, and more are compared
_DENSE, _RISE = 1_200_000, 0.25  # keys from which on more candidates are needed
_LISTS = 16_384  # at most
_MOST_LISTS, _MOST_PIECES, _MOST_BITS, _LETTERS = 1 << 18, 1024, 12, 200  # of an index that is asked for
_WIDTH = 128  # dimensions that are coded; exact distances of the candidates make up for the rest

_IVF = re.compile(r"IVF(\d+)")
_PQ = re.compile(r"(?<![A-Z])(O?PQ)(\d+)(?:x(\d+))?")
_REFINE = re.compile(r",\s*R(Flat|efine)")


@dataclass(frozen=True)
class IndexSpec:
    """factory: for Faiss, or "exact"; nprobe: inverted lists looked at; rerank: candidates a neighbour, 0 for none"""

    factory: str
    nprobe: int = 1
    rerank: int = 0


def choose(asked: str, count: int, dim: int, nprobe: int | None = None, rerank: int | None = None) -> IndexSpec:
    """What "auto", "exact", "paper" or a Faiss factory string means for a store of this size.

    "auto" compares all keys below 30,000. Above, it takes inverted lists, 2·√keys or, from 100,000 on, 4·√keys of them
    as a power of two and at most 16,384, of codes of 32 bytes: two bits for each of the 128 main directions. 64 lists
    are looked at, fewer of more than 160,000 keys, and candidates re-ranked. "paper" trusts its codes of 64 bytes, as
    the paper did.
    """
    probes, reranked = _NPROBE, 0
    factory = {"exact": EXACT, "paper": _PAPER}.get(asked, asked)
    if asked == "auto":
        factory, probes, reranked = (
            (EXACT, 1, 0) if count < EXACT_BELOW else (_scanned(count, dim), _probes(count), _candidates(count, dim))
        )
    factory = _fitting(factory, count, dim)
    if factory == EXACT:
        return IndexSpec(EXACT)
    lists = _IVF.search(factory)
    probes = min(nprobe or probes, int(lists[1])) if lists else 1
    return IndexSpec(factory, probes, reranked if rerank is None else rerank)


def training_keys(dim: int) -> int:
    """How many keys anything is trained on at most, so that they take no more than a gigabyte."""
    return min(TRAINING_KEYS, _TRAINING_BYTES // (4 * dim))


def training_sample(factory: str, dim: int) -> int:
    """How many keys an index is trained on: more than its centroids need cost time and bring nothing."""
    lists = _IVF.search(factory)
    # One more than needed a centroid: a drawn sample may be a few keys short.
    return min(training_keys(dim), max(_CODE_KEYS, (_POINTS + 1) * int(lists[1]) if lists else 0))


def check_factory(asked: str, dim: int) -> None:
    """Refuse what Faiss cannot make, before hours of work."""
    if asked in ("auto", "exact", "paper"):
        return
    if "IDMap" in asked or _REFINE.search(asked):
        raise InputError(f"The index {asked!r}: leave out IDMap, and use rerank instead of a refinement.")
    numbers = [int(number) for number in re.findall(r"\d{1,30}", asked)]
    if len(asked) > _LETTERS or any(number > _MOST_LISTS for number in numbers):
        raise InputError(f"The index {asked[:40]!r}: no number in it may be above {_MOST_LISTS:,}.")
    if any(int(code[2]) > _MOST_PIECES or int(code[3] or 8) > _MOST_BITS for code in _PQ.finditer(asked)):
        raise InputError(f"The index {asked!r}: codes have at most {_MOST_PIECES} pieces of {_MOST_BITS} bits.")
    try:
        faiss.index_factory(dim, _divided(asked, dim), faiss.METRIC_L2)
    except (RuntimeError, TypeError):  # of bytes that are no text
        raise InputError(
            f"The index {asked!r} is not known to Faiss for {dim} dimensions: "
            "give auto, exact, paper or a factory string such as IVF1024,PQ64."
        ) from None


def _power_of_two(most: float) -> int:
    """The largest that is not above ``most``, and at least 1."""
    return 1 << max(int(most), 1).bit_length() - 1


def _scanned(count: int, dim: int) -> str:
    """Inverted lists of four-bit codes, one for two of the main directions: a large and a small one, see train.py."""
    root = (_FEWER_LISTS if count < _FEW_KEYS else _MORE_LISTS) * count**0.5
    lists = _power_of_two(min(root, _LISTS, training_keys(dim) / (_POINTS + 1)))
    pieces = max(1, min(dim, _WIDTH) // 2)
    return f"PCA{min(2 * pieces, dim)},IVF{lists},PQ{pieces}x4fs"


def _probes(count: int) -> int:
    return max(_LEAST_PROBES, round(_MOST_PROBES * min(1.0, (_SPREAD / count) ** _FALL)))


def _candidates(count: int, dim: int) -> int:
    return round(_RERANK * max(1, round(dim / _RERANKED_WIDTH)) * max(1.0, (count / _DENSE) ** _RISE))


def _fitting(factory: str, count: int, dim: int) -> str:
    """Scale an index down to what so few keys, of such a width, can train."""
    if factory == EXACT:
        return EXACT
    factory = _divided(factory, dim)
    keys = min(count, training_keys(dim))
    for code in _PQ.finditer(factory):
        needed = _POINTS << int(code[3] or 8)
        if keys < needed:
            logger.warning("%s needs %d keys to be trained, there are %d: exact search instead.", code[0], needed, keys)
            return EXACT
    lists = _IVF.search(factory)
    if lists and int(lists[1]) * _POINTS > keys:
        fewer = max(1, keys // _POINTS)
        logger.warning(
            "%d keys can train %d centroids (%d keys each), not %s: the index is scaled down.",
            keys, fewer, _POINTS, lists[1],
        )  # fmt: skip
        factory = _IVF.sub(f"IVF{fewer}", factory)
    return factory


def _divided(factory: str, dim: int) -> str:
    """A product quantiser cuts keys into equal pieces: the largest number of pieces ≤ the one asked for that can."""

    def divided(code: re.Match[str]) -> str:
        pieces = next(m for m in range(max(1, min(int(code[2]), dim)), 0, -1) if dim % m == 0)
        return f"{code[1]}{pieces}" + (f"x{code[3]}" if code[3] else "")

    # After a reduction of dimensions the pieces are cut from something else, which is the user's own calculation.
    return factory if re.search(r"PCA|OPQ\d+_|PCAR|RR", factory) else _PQ.sub(divided, factory)
