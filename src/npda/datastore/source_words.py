"""Which sentences of a store say something alike: looked up by the words of their source texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from npda.datastore.store import Datastore

_WORD = re.compile(r"\w+")


def words(text: str) -> frozenset[str]:
    """The different words of a text, without case."""
    return frozenset(_WORD.findall(text.casefold()))


class SourceWords:
    """The source words of all sentences that have keys, held in memory: some 100 bytes a sentence.

    Sentences are numbered through all shards in the order of their keys.
    """

    def __init__(self, store: Datastore) -> None:
        known: dict[str, int] = {}
        found: list[np.ndarray] = []
        starts, ends = [], []
        for shard in store.entries.shards:
            numbers, first, count = np.unique(shard.sentences, return_index=True, return_counts=True)
            texts = shard.all_texts()
            for number in numbers.tolist():
                own = sorted(words(texts[number][0]))
                found.append(np.array([known.setdefault(word, len(known)) for word in own], dtype=np.int32))
            starts.append(shard.first + first)
            ends.append(shard.first + first + count)
        self._known = known
        self._starts = np.concatenate([np.empty(0, np.int64), *starts])
        self._ends = np.concatenate([np.empty(0, np.int64), *ends])
        self._names = list(known)
        sizes = [len(own) for own in found]
        self._owners = np.repeat(np.arange(len(found)), sizes)  # the sentence of each of _words
        self._words = np.concatenate([*found, np.empty(0, np.int32)])
        # The rarer a word, the more two sentences have in common that share it.
        self._weights = np.log((1 + len(found)) / (1 + np.bincount(self._words, minlength=len(known)))) + 1e-6

    def __len__(self) -> int:
        return len(self._starts)

    def sentences(self, ids: np.ndarray) -> np.ndarray:
        """To which sentence each key belongs; ids: [n], all of them of the store"""
        return np.searchsorted(self._starts, ids, side="right") - 1

    def keys(self, sentences: np.ndarray) -> np.ndarray:
        """The ids of all keys of some sentences, rising."""
        chosen = np.unique(sentences)
        ranges = zip(self._starts[chosen].tolist(), self._ends[chosen].tolist(), strict=True)
        return np.concatenate([np.empty(0, np.int64), *(np.arange(first, end) for first, end in ranges)])

    def said(self, sentences: np.ndarray) -> dict[str, float]:
        """The words of some sentences, each with the share of the sentences that have it."""
        first, end = np.searchsorted(self._owners, [sentences, np.asarray(sentences) + 1])
        parts = [self._words[a:b] for a, b in zip(first, end, strict=True)]
        places, counts = np.unique(np.concatenate([*parts, np.empty(0, np.int32)]), return_counts=True)
        return {self._names[place]: count / len(sentences) for place, count in zip(places, counts, strict=True)}

    def sharing(self, guess: Mapping[str, float] | Iterable[str], count: int) -> np.ndarray:
        """At most ``count`` sentences: those that share most with some words, and at least one of these.

        guess: words, or words with how likely they are; a shared word counts by that and by how rare it is
        """
        likely = guess if isinstance(guess, Mapping) else dict.fromkeys(guess, 1.0)
        weights = np.zeros(len(self._known))
        for word, share in likely.items():
            if word in self._known:
                weights[self._known[word]] = share * self._weights[self._known[word]]
        scores = np.bincount(self._owners, weights=weights[self._words], minlength=len(self))
        best = np.argsort(-scores, kind="stable")[:count]
        return np.sort(best[scores[best] > 0])
