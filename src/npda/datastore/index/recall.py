"""How much of the truth an index finds, measured with questions like those it will be asked.

A stored key asks for its neighbours as if its own sentence were not in the store: all keys of that sentence are
struck, from the exact answer and from the candidates of the index, of which it looks at no more than in a search. What
is left is what a new sentence of the same domain would be answered. A key disturbed by noise would still find itself,
and flatter the index.
"""

from __future__ import annotations

import numpy as np

from npda.datastore.format import RECALL_K, Recall
from npda.datastore.index.exact import ExactSearcher
from npda.datastore.index.search import IndexSearcher
from npda.datastore.shards import Entries

QUERIES = 512
_SEED = 8


def measure_recall(entries: Entries, searcher: IndexSearcher, queries: int = QUERIES) -> Recall:
    """Recall@8 of a search through an index against exact search."""
    asking = entries.sample(queries, _SEED)
    keys = entries.keys(asking)
    own = np.array([entries.sentence_range(int(id_)) for id_ in asking]).reshape(-1, 2)
    longest = int((own[:, 1] - own[:, 0]).max(initial=0))
    truth = _others(ExactSearcher(entries).search(keys, min(RECALL_K + longest, entries.count))[1], own)
    answer = _others(searcher.search_without(keys, RECALL_K, own)[1], own)
    found = wanted = 0
    for true, given in zip(truth, answer, strict=True):
        found += len(np.intersect1d(true, given))
        wanted += len(true)
    return Recall(value=found / wanted if wanted else 1.0, queries=len(asking), keys=entries.count)


def _others(ids: np.ndarray, own: np.ndarray) -> list[np.ndarray]:
    """The first 8 ids of every row that are not of the asking sentence. own: [n, 2] first, end"""
    return [
        row[(row >= 0) & ((row < first) | (row >= end))][:RECALL_K] for row, (first, end) in zip(ids, own, strict=True)
    ]
