"""The seam between searching and everything that uses what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Neighbours:
    """The nearest keys of every query, nearest first.

    distances: [n, k] float32, squared L2, +inf where there are fewer keys than k; values: [n, k] int32 tokens;
    ids: [n, k] int64 of the keys; both −1 where the distance is +inf
    """

    distances: np.ndarray
    values: np.ndarray
    ids: np.ndarray

    def of(self, rows: np.ndarray) -> Neighbours:
        """Those of some queries. rows: [m], of the n queries"""
        return Neighbours(self.distances[rows], self.values[rows], self.ids[rows])


@dataclass(frozen=True)
class Entry:
    """What a key stands for: its sentence, and which of its target tokens follows the key.

    token: the value; position: of that token, counted in target tokens from 0; source: name of the key's source;
    both texts are empty where the store was made without sentences
    """

    source_text: str
    target_text: str
    position: int
    token: int
    source: str


class Retriever(Protocol):
    """Finds the nearest keys."""

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        """queries: [n, dim] float32"""
        ...


class ExplainableRetriever(Retriever, Protocol):
    """A retriever that can tell what a key stands for: ``LocalRetriever``, ``JoinedRetriever``, ``Datastore``."""

    def neighbour_info(self, id_: int) -> Entry: ...
