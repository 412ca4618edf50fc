"""Inverted lists of any size, merged and filtered in a few megabytes of memory.

Faiss opens an index file memory-mapped (``IO_FLAG_MMAP``) if its inverted lists stand in it as plain arrays, but
writes such a file only from lists that are all in memory. Here the file is Faiss's own serialisation of the empty
index, followed by the lists streamed from other files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np


def open_mapped(path: Path) -> Any:
    """An index whose inverted lists stay on disk."""
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
    if (ivf := inverted(index)) is not None:
        lists: Any = faiss.downcast_InvertedLists(ivf.invlists)
        if hasattr(lists, "prefetch_nthread"):
            lists.prefetch_nthread = 0  # 32 threads started anew for every search cost more than they bring
    return index


def inverted(index: Any) -> Any:
    """The part of an index that holds inverted lists, or None."""
    ivf = faiss.try_extract_index_ivf(index)
    return None if ivf is None else faiss.downcast_index(ivf)


def emptied(index: Any) -> Any:
    """The same index, trained, without entries; the one given is used up."""
    ivf = inverted(index)
    lists: Any = faiss.ArrayInvertedLists(ivf.nlist, ivf.code_size)
    lists.this.disown()
    ivf.replace_invlists(lists, True)
    ivf.ntotal = index.ntotal = 0
    return index


def streamable(empty: Any) -> bool:
    """Whether the lists of an index can be streamed; those of "fast scan" are interleaved and cannot."""
    return inverted(empty) is not None and faiss.serialize_index(empty).tobytes().endswith(_tail(inverted(empty)))


def write_merged(
    path: Path, empty: Any, parts: Sequence[Any], keep: Callable[[np.ndarray], np.ndarray] | None = None
) -> None:
    """Write an index with the entries of all parts, which were trained alike.

    keep: ids [n] → [n] bool, the entries to go on with
    """
    ivf = inverted(empty)
    lists = [inverted(part).invlists for part in parts]

    def content(number: int) -> tuple[np.ndarray, np.ndarray]:
        ids, codes = [np.empty(0, np.int64)], [np.empty((0, ivf.code_size), np.uint8)]
        for part in lists:
            if size := part.list_size(number):
                found = faiss.rev_swig_ptr(part.get_ids(number), size)
                code = faiss.rev_swig_ptr(part.get_codes(number), size * ivf.code_size).reshape(size, -1)
                chosen = slice(None) if keep is None else keep(found)
                ids.append(found[chosen])
                codes.append(code[chosen])
        return np.concatenate(ids), np.concatenate(codes)

    if keep is None:
        sizes = [sum(part.list_size(number) for part in lists) for number in range(ivf.nlist)]
    else:
        sizes = [len(content(number)[0]) for number in range(ivf.nlist)]
    tail = _tail(ivf)
    ivf.ntotal = empty.ntotal = sum(sizes)
    head = faiss.serialize_index(empty).tobytes()
    assert head.endswith(tail), "this version of Faiss writes inverted lists in another way"
    with open(path, "wb") as file:
        file.write(head[: -len(tail)])
        file.write(b"ilar" + struct.pack("<QQ", ivf.nlist, ivf.code_size))
        file.write(b"full" + struct.pack("<Q", ivf.nlist))
        file.write(np.array(sizes, dtype="<u8").tobytes())
        for number, size in enumerate(sizes):
            if size:
                ids, codes = content(number)
                file.write(codes.tobytes())
                file.write(ids.astype("<i8", copy=False).tobytes())
    ivf.ntotal = empty.ntotal = 0


def _tail(ivf: Any) -> bytes:
    """How the serialisation of an empty index ends: array lists, none of which has entries."""
    return b"ilar" + struct.pack("<QQ", ivf.nlist, ivf.code_size) + b"sprs" + struct.pack("<Q", 0)
