"""Fewer dimensions: principal components of the keys (He et al. 2021). Queries go the same way, at the store's door."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from npda.datastore.format import PROJECTION_FILE, FileInfo, ProjectionInfo
from npda.datastore.index.spec import training_keys
from npda.datastore.shards import Entries
from npda.io.errors import InputError
from npda.io.files import atomic_write

_BLOCK_ROWS = 65_536
_SEED = 0


@dataclass(frozen=True)
class Projection:
    """A turn of the space and a cut: distances get no longer, and shrink only by what the cut takes away.

    mean: [from] float32; matrix: [to, from] float32, rows of length 1 at right angles; variance: the share that is kept
    """

    mean: np.ndarray
    matrix: np.ndarray
    variance: float

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """[n, from] → [n, to] float32"""
        return (states.astype(np.float32, copy=False) - self.mean) @ self.matrix.T

    @property
    def dim(self) -> int:
        """Of the keys it gives."""
        return len(self.matrix)

    @classmethod
    def fit(cls, entries: Entries, dim: int) -> Projection:
        """The directions in which keys differ most, from all of them or an even sample of many."""
        if not 1 <= dim <= entries.dim:
            raise InputError(f"Keys of {entries.dim} dimensions cannot be projected to {dim}: give 1 … {entries.dim}.")
        ids = entries.sample(training_keys(entries.dim), _SEED)
        if len(ids) == 0:
            raise InputError("The datastore holds no keys: there is nothing to compress.")
        total, products = np.zeros(entries.dim), np.zeros((entries.dim, entries.dim))
        # From the first key on instead of from 0: sums of squares far away would round the differences off.
        origin = entries.keys(ids[:1])[0].astype(np.float64)
        for start in range(0, len(ids), _BLOCK_ROWS):
            keys = entries.keys(ids[start : start + _BLOCK_ROWS]) - origin
            total += keys.sum(axis=0)
            products += keys.T @ keys
        mean = total / len(ids)
        values, vectors = np.linalg.eigh(products / len(ids) - np.outer(mean, mean))
        values = np.maximum(values[::-1], 0.0)
        kept = float(values[:dim].sum() / values.sum()) if values.sum() > 0 else 1.0
        matrix = np.ascontiguousarray(vectors[:, ::-1][:, :dim].T)
        return cls((mean + origin).astype(np.float32), matrix.astype(np.float32), min(kept, 1.0))

    def after(self, first: Projection | None) -> Projection:
        """This one of keys that were themselves projected: both in one step."""
        if first is None:
            return self
        mean = first.mean + self.mean @ first.matrix
        return Projection(mean, self.matrix @ first.matrix, self.variance * first.variance)

    def save(self, store: Path) -> ProjectionInfo:
        with atomic_write(store / PROJECTION_FILE) as temporary:
            save_file({"mean": self.mean, "matrix": self.matrix}, temporary)
        file = FileInfo.of(store / PROJECTION_FILE)
        return ProjectionInfo(dim=self.matrix.shape[1], variance=self.variance, file=file)

    @classmethod
    def load(cls, store: Path, info: ProjectionInfo, dim: int) -> Projection:
        """dim: of the store's keys"""
        path = store / PROJECTION_FILE
        info.file.check_size(path)
        remedy = "restore the datastore from its copy, or compress it again."
        if FileInfo.of(path) != info.file:
            raise InputError(f"{path} does not have the checksum of datastore.json: {remedy}")
        try:
            arrays = load(path.read_bytes())
        except SafetensorError as error:
            raise InputError(f"{path} cannot be read ({error}): {remedy}") from None
        shapes = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        if shapes != {"mean": ((info.dim,), np.float32), "matrix": ((dim, info.dim), np.float32)}:
            raise InputError(f"{path} does not hold a projection from {info.dim} to {dim} dimensions: {remedy}")
        return cls(arrays["mean"], arrays["matrix"], info.variance)
