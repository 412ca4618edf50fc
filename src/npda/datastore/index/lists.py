"""Inverted lists of any size, merged and filtered in a few megabytes of memory.

Faiss opens an index file memory-mapped (``IO_FLAG_MMAP``) if its inverted lists stand in it as plain arrays, but
writes such a file only from lists that are all in memory. Here the file is Faiss's own serialisation of the empty
index, followed by the lists streamed from other files.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

_FAST_SCAN = re.compile(r"(PQ\d+x4)fs(r?)")
_ONE_BY_ONE = 11  # Faiss's scan that does not look for queries with lists in common: of a few hardly any have
_REOPEN_BYTES = 256 << 20  # written between two openings of the parts, whose mapped pages count as memory until then


def open_mapped(path: Path, to_search: bool = False) -> Any:
    """An index whose inverted lists stay on disk.

    to_search: with Faiss's tables for faster distances to product codes, half a gigabyte for the paper's index; codes
    of four bits a piece are read into memory, see ``packed``
    """
    flags = faiss.IO_FLAG_MMAP | (0 if to_search else faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE)
    index = faiss.read_index(str(path), flags)
    if (ivf := inverted(index)) is not None:
        lists: Any = faiss.downcast_InvertedLists(ivf.invlists)
        if hasattr(lists, "prefetch_nthread"):
            lists.prefetch_nthread = 0  # 32 threads started anew for every search cost more than they bring
    return packed(index) if to_search else index


def write_index(index: Any, path: Path) -> None:
    """As ``faiss.write_index``, which does not notice if a full disk takes all of it but the last bytes."""
    library: Any = faiss  # does not tell all that it has
    with open(path, "wb") as file:
        faiss.write_index(index, library.PyCallbackIOWriter(file.write))


def inverted(index: Any) -> Any:
    """The part of an index that holds inverted lists, or None."""
    ivf = faiss.try_extract_index_ivf(index)
    return None if ivf is None else faiss.downcast_index(ivf)


def plain(factory: str) -> str:
    """A factory string without "fast scan", which is a matter of searching: see ``packed``."""
    return _FAST_SCAN.sub(r"\1", factory)


def residual(factory: str) -> bool:
    """Whether codes stand for what a centroid leaves over; with "fast scan" they do so only where "fsr" asks for it."""
    scanned = _FAST_SCAN.search(factory)
    return scanned is None or scanned[2] == "r"


def packed(index: Any) -> Any:
    """An index of four-bit codes as Faiss scans them fastest, thirty-two keys at a time; any other as it is.

    Interleaved lists can be neither streamed nor mapped, so that they are made when an index is opened, in a tenth of
    a second for a million keys. Which lists lie near a query is told by the same codes, of their centroids: a sixteenth
    of what there is to read, and a quarter of the time. The index given is used up.
    """
    lists = inverted(index)
    if not _in_four_bits(lists):
        return index
    scanned: Any = faiss.IndexIVFPQFastScan(lists)
    scanned.implem = _ONE_BY_ONE
    scanned.own_fields = True
    if _found_by_codes(lists):
        scanned.quantizer = _coded_centroids(lists)
        scanned.quantizer.this.disown()
    else:
        lists.own_fields = False  # the centroids move over
    if not hasattr(index, "chain"):
        return scanned  # nothing is done to the queries before
    index.index = scanned
    scanned.this.disown()
    lists.this.own(True)  # nothing else owns them any more
    return index


def nearest_list(lists: Any) -> Any:
    """An index that finds the list of a key: the nearest of eight candidates by their codes, four times as fast as the
    nearest of all and in 99 of 100 cases the same. None where lists are not found by codes. It needs ``lists``.
    """
    if not _found_by_codes(lists):
        return None
    nearest: Any = faiss.IndexRefine(_coded_centroids(lists), lists.quantizer)
    nearest.k_factor = 8
    return nearest


def _found_by_codes(lists: Any) -> bool:
    """Whether the centroids of lists can be told by the codes of keys, which they cannot if those are residual."""
    flat = (faiss.IndexFlat, faiss.IndexFlatL2)
    return _in_four_bits(lists) and not lists.by_residual and type(faiss.downcast_index(lists.quantizer)) in flat


def _coded_centroids(lists: Any) -> Any:
    coded: Any = faiss.IndexPQFastScan(lists.d, lists.pq.M, lists.pq.nbits)
    coded.pq, coded.is_trained = lists.pq, True
    coded.add(lists.quantizer.reconstruct_n(0, lists.nlist))
    return coded


def _in_four_bits(lists: Any) -> bool:
    return isinstance(lists, faiss.IndexIVFPQ) and lists.pq.nbits == 4


def emptied(index: Any) -> Any:
    """The same index, trained, without entries; the one given is used up."""
    ivf = inverted(index)
    lists: Any = faiss.ArrayInvertedLists(ivf.nlist, ivf.code_size)
    lists.this.disown()
    ivf.replace_invlists(lists, True)
    ivf.ntotal = index.ntotal = 0
    return index


def streamable(index: Any) -> bool:
    """Whether an index has plain lists, which can be streamed; interleaved ones cannot."""
    plain = (faiss.ArrayInvertedLists, faiss.OnDiskInvertedLists)
    ivf = inverted(index)
    return ivf is not None and type(faiss.downcast_InvertedLists(ivf.invlists)) in plain


def write_merged(
    path: Path, empty: Any, parts: Sequence[Path], keep: Callable[[np.ndarray], np.ndarray] | None = None
) -> None:
    """Write an index with the entries of all parts: files of indexes that were trained alike.

    keep: ids [n] → [n] bool, the entries to go on with
    """
    ivf = inverted(empty)
    sizes = _sizes(parts, ivf.nlist, keep)
    tail = _tail(ivf)
    ivf.ntotal = empty.ntotal = int(sizes.sum())
    head = faiss.serialize_index(empty).tobytes()
    ivf.ntotal = empty.ntotal = 0
    assert head.endswith(tail), "this version of Faiss writes inverted lists in another way"
    with open(path, "wb") as file:
        file.write(head[: -len(tail)])
        file.write(b"ilar" + struct.pack("<QQ", ivf.nlist, ivf.code_size))
        file.write(b"full" + struct.pack("<Q", ivf.nlist))
        file.write(sizes.astype("<u8").tobytes())
        opened, written = [open_mapped(part) for part in parts], 0
        for number in np.flatnonzero(sizes).tolist():
            found = [_entries(part, number, keep) for part in opened]
            codes, ids = b"".join(codes.tobytes() for _, codes in found), b"".join(ids.tobytes() for ids, _ in found)
            file.write(codes)
            file.write(ids)
            written += len(codes) + len(ids)
            if written > _REOPEN_BYTES:
                opened, written = [open_mapped(part) for part in parts], 0


def _sizes(parts: Sequence[Path], lists: int, keep: Callable[[np.ndarray], np.ndarray] | None) -> np.ndarray:
    """How long the merged lists will be. → [lists] int64"""
    sizes = np.zeros(lists, dtype=np.int64)
    for path in parts:
        part = open_mapped(path)
        for number in range(lists):
            sizes[number] += len(_entries(part, number, keep)[0])
    return sizes


def _entries(index: Any, number: int, keep: Callable[[np.ndarray], np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
    """Ids [n] int64 and codes [n, code_size] of one list, those that are kept."""
    ivf = inverted(index)
    size = ivf.invlists.list_size(number)
    if size == 0:
        return np.empty(0, np.int64), np.empty((0, ivf.code_size), np.uint8)
    ids = faiss.rev_swig_ptr(ivf.invlists.get_ids(number), size)
    codes = faiss.rev_swig_ptr(ivf.invlists.get_codes(number), size * ivf.code_size).reshape(size, -1)
    return (ids, codes) if keep is None else (ids[(kept := keep(ids))], codes[kept])


def _tail(ivf: Any) -> bytes:
    """How the serialisation of an empty index ends: array lists, none of which has entries."""
    return b"ilar" + struct.pack("<QQ", ivf.nlist, ivf.code_size) + b"sprs" + struct.pack("<Q", 0)


def within(index: Any, first: int, end: int) -> Any:
    """The same index with the entries whose ids lie between ``first`` and ``end``, in memory; the given one is used up.

    Entries keep their order, so that equal distances are met in the order of the whole index.
    """
    ivf = inverted(index)
    lists: Any = faiss.ArrayInvertedLists(ivf.nlist, ivf.code_size)
    for number in range(ivf.nlist):
        ids, codes = _entries(index, number, lambda ids: (ids >= first) & (ids < end))
        if len(ids):
            codes, ids = np.ascontiguousarray(codes), np.ascontiguousarray(ids)
            lists.add_entries(number, len(ids), faiss.swig_ptr(ids), faiss.swig_ptr(codes))
    lists.this.disown()
    count = sum(lists.list_size(number) for number in range(ivf.nlist))
    ivf.replace_invlists(lists, True)
    ivf.ntotal = index.ntotal = count
    return index
