"""Following what was found: the next neighbours are mostly in the sentences of the last ones.

After He et al.'s gate (see ``skipping``) the other way to do with fewer searches. RetoMaton (Alon et al. 2022) follows
a neighbour to the key after it; Martins et al. (2022) retrieve chunks of keys at once. Both are right as long as the
store's sentence says the same. Here every key of every sentence that was found is a candidate once the token before it
is written, so that one is also found again behind a word that differs, and what a candidate is worth is told by its
true distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.retrieval.protocol import Neighbours
from npda.datastore.store import Datastore
from npda.datastore.stored_sentences import SeenSentences, StoredSentences
from npda.decoding.fusion import Beginnings
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.fusion import KnnFusion


@dataclass(frozen=True)
class FollowOptions:
    """threshold: the squared distance up to which the nearest candidate is near enough to do without a search;
    depth: a search finds so many times the neighbours that are combined, and the sentences of all are followed
    """

    threshold: float
    depth: int = 8

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise ValueError("the threshold must be a number")
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, not {self.depth}")


class FollowingFusion(KnnFusion):
    """``KnnFusion`` that searches only where no key is near among the sentences it came upon for the same sentence.

    The beams of a sentence share what they found; what a sentence gets does not depend on the others. One search at a
    time.

    asked, followed: hypotheses with different states so far, all of them and those nobody searched for
    """

    def __init__(
        self, retriever: Datastore | LocalRetriever | JoinedRetriever, combiner: Combiner, options: FollowOptions
    ) -> None:
        super().__init__(retriever, combiner)
        self.options = options
        self.asked = 0
        self.followed = 0
        self._stored = StoredSentences(retriever)
        self._seen: dict[int, SeenSentences] = {}
        self._begins = Beginnings()

    @property
    def share_followed(self) -> float:
        return self.followed / self.asked if self.asked else 0.0

    def new_search(self) -> None:
        self._begins.forget()

    def find(self, queries: np.ndarray, prefixes: np.ndarray, sentences: np.ndarray) -> Neighbours:
        if self._begins(prefixes.shape[1]):
            self._seen = {}
        found = self._candidates(queries, prefixes[:, -1], sentences)
        search = ~self.near_enough(found.distances[:, 0])
        self.asked += len(queries)
        self.followed += len(queries) - int(search.sum())
        if search.any():
            k = self.combiner.k
            deeper = self.retriever.search(queries[search], k * self.options.depth)
            for sentence in np.unique(sentences[search]).tolist():
                seen = self._seen.setdefault(sentence, SeenSentences(self._stored))
                seen.add(deeper.ids[sentences[search] == sentence].ravel())
            found.distances[search] = deeper.distances[:, :k]
            found.values[search] = deeper.values[:, :k]
            found.ids[search] = deeper.ids[:, :k]
        return found

    def near_enough(self, distances: np.ndarray) -> np.ndarray:
        """Whether the nearest candidates will do. distances: [rows], +inf where there is none → [rows] bool"""
        return np.isfinite(distances) & (distances <= self.options.threshold)

    def _candidates(self, queries: np.ndarray, tokens: np.ndarray, sentences: np.ndarray) -> Neighbours:
        """The nearest keys that come after a hypothesis' last token in sentences seen. tokens, sentences: [rows]"""
        nobody = SeenSentences(self._stored)
        ids = [
            self._seen.get(sentence, nobody).after(token)
            for sentence, token in zip(sentences.tolist(), tokens.tolist(), strict=True)
        ]
        rows = np.repeat(np.arange(len(ids)), [len(candidates) for candidates in ids])
        return self._stored.nearest(queries, rows, np.concatenate(ids), self.combiner.k)
