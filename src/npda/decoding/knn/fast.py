"""Fast kNN-MT (Meng et al. 2021): search only keys of sentences whose source has words of what is said.

What is said is heard here, not read: the words are guessed from the source texts of the first neighbours, which a
search among all keys finds; a transcript, where there is one, saves the guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import faiss
import numpy as np
from torch import Tensor

from npda.datastore.index.search import missing, rescored, set_threads
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Neighbours
from npda.datastore.source_words import SourceWords, words
from npda.datastore.store import Datastore
from npda.decoding.fusion import Beginnings
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.fusion import KnnFusion


@dataclass(frozen=True)
class FastOptions:
    """steps: of a search that see all keys; neighbours: of each state whose words are guessed to be said;
    sentences: with most of these words, whose keys are searched from then on, for every such state or transcript
    """

    steps: int = 1
    neighbours: int = 32
    sentences: int = 256

    def __post_init__(self) -> None:
        if min(self.steps, self.neighbours, self.sentences) < 1:
            raise ValueError("steps, neighbours and sentences must be at least 1")


class FastRetriever:
    """Searches all keys or, once narrowed, those of some sentences.

    compared, possible: keys that the queries were and would have been compared with
    """

    def __init__(self, store: Datastore, options: FastOptions = FastOptions()) -> None:
        self.options = options
        self.compared = 0
        self.possible = 0
        self._all = LocalRetriever(store)
        self._values = store.entries.values()
        self._sources = SourceWords(store)
        self._store = store
        self._keys = store.entries.table()
        self._part: tuple[np.ndarray, np.ndarray] | None = None  # ids [n], keys [n, dim]
        self._seen: list[np.ndarray] = []  # sentences of neighbours, since all keys were searched last

    @property
    def share_searched(self) -> float:
        return self.compared / self.possible if self.possible else 1.0

    def search(self, queries: np.ndarray, k: int) -> Neighbours:
        self.possible += len(queries) * len(self._store)
        if self._part is not None:
            self.compared += len(queries) * len(self._part[0])
            return self._search_part(queries, k)
        self.compared += len(queries) * len(self._store)
        found = self._all.search(queries, max(k, self.options.neighbours))
        rows = np.unique(found.ids[:, : self.options.neighbours], axis=0)  # all beams of a sentence begin alike
        self._seen += [self._sources.sentences(row[row >= 0]) for row in rows]
        return Neighbours(found.distances[:, :k], found.values[:, :k], found.ids[:, :k])

    def widen(self) -> None:
        """From now on search all keys."""
        self._part = None
        self._seen = []

    def narrow(self, transcripts: Sequence[str] = ()) -> None:
        """From now on search the sentences that share most with transcripts or, without any, with what was found."""
        guesses = [words(text) for text in transcripts] or [self._sources.said(seen) for seen in self._seen]
        chosen = [self._sources.sharing(guess, self.options.sentences) for guess in guesses]
        ids = self._sources.keys(np.concatenate([*chosen, np.empty(0, np.int64)]).astype(np.int64))
        self._part = ids, self._store.entries.keys(ids)

    def _search_part(self, queries: np.ndarray, k: int) -> Neighbours:
        assert self._part is not None
        ids, keys = self._part
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if self._store.projection is not None:
            queries = self._store.projection(queries)
        distances, found = missing(len(queries), k)
        if len(ids) and len(queries):
            set_threads()
            places = faiss.knn(queries, keys, min(k, len(ids)))[1]
            distances, found = rescored(self._keys, queries, ids[places], k)
        return Neighbours(distances, np.where(found < 0, -1, self._values[found]), found)


class FastFusion:
    """``KnnFusion`` over a ``FastRetriever``: each search sees all keys for some steps, and then its own.

    All sentences of a batch share the keys that any of them needs, so that small batches search the least. One search
    at a time.
    """

    def __init__(self, retriever: FastRetriever, combiner: Combiner) -> None:
        self.retriever = retriever
        self._neighbours = KnnFusion(retriever, combiner)
        self._begins = Beginnings()
        self._steps = 0

    def new_search(self) -> None:
        self._begins.forget()

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        if self._begins(prefixes.shape[1]):
            self.retriever.widen()
            self._steps = 0
        if self._steps == self.retriever.options.steps:
            self.retriever.narrow()
        self._steps += 1
        return self._neighbours.apply(states, log_probs, prefixes, sentences)
