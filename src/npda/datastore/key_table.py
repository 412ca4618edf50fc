"""The keys of many files as one table."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from npda.io.errors import InputError


class KeyTable:
    """Keys by their ids, gathered by a single call, from however many files they are mapped.

    A tensor spans all the memory from the first mapping to the last. One of its rows begins at every number of it, and
    those that are keys are read; what lies between the mappings never is.

    arrays: [n, dim] float16 each, whose ids count up from ``firsts``; they rise from array to array
    """

    def __init__(self, arrays: Sequence[np.ndarray], firsts: Sequence[int], dim: int) -> None:
        self.dim = dim
        self._arrays = list(arrays)  # they hold the mappings
        begins = np.array([array.ctypes.data for array in arrays], dtype=np.int64)
        sizes = np.array([len(array) for array in arrays], dtype=np.int64)
        ids = np.array(firsts, dtype=np.int64)
        base = int(begins.min()) if len(begins) else 0
        numbers = int((begins + 2 * dim * sizes).max(initial=base) - base) // 2
        memory = np.ctypeslib.as_array((ctypes.c_uint16 * numbers).from_address(base)).view(np.float16)
        self._rows = torch.from_numpy(memory).as_strided((max(0, numbers - dim + 1), dim), (1, 1))
        # Of the shard before the first, which ids too small are taken for, nothing is a key.
        self._firsts, self._ends = ids, np.append(np.iinfo(np.int64).min, ids + sizes)
        self._starts = np.append(0, (begins - base) // 2 - ids * dim)  # where the key of id 0 would begin

    @property
    def lowest(self) -> int:
        """The smallest id."""
        return int(self._firsts[0])

    def rows(self, ids: np.ndarray) -> Tensor:
        """ids: [n] int64, in any order → [n, dim] float16"""
        shards = self._firsts.searchsorted(ids, side="right")
        if not (ids < self._ends[shards]).all():
            raise InputError("The index names keys that the datastore does not hold: restore it from a copy.")
        return self._rows.index_select(0, torch.from_numpy(self._starts[shards] + self.dim * ids))
