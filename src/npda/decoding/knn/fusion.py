"""Nearest neighbours have a say in every next token (sections 2.2 and 3.2 of the paper)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from npda.datastore.retrieval.protocol import Neighbours, Retriever
from npda.decoding.fusion import Finish
from npda.decoding.knn.combiners import Combiner, Retrieved, mixed
from npda.models.devices import to_host


class KnnFusion:
    """The mixture of eq. 5, inside the beam.

    combiner: the paper's, which is its ``KnnOptions``, a learned one, or your own
    """

    def __init__(self, retriever: Retriever, combiner: Combiner) -> None:
        self.retriever = retriever
        self.combiner = combiner

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        return self.begin(states, prefixes, sentences)(log_probs)

    def begin(self, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
        if self.combiner.is_inactive:
            return lambda log_probs: log_probs  # the model itself, bit for bit
        copied = to_host(states.float(), prefixes, sentences)
        return lambda log_probs: self._mix(states, log_probs, *copied())

    def _mix(
        self, states: Tensor, log_probs: Tensor, queries: np.ndarray, tokens: np.ndarray, of: np.ndarray
    ) -> Tensor:
        """queries, tokens, of: states, prefixes and sentences on the processor"""
        # The beams of a sentence stand together and begin alike: of equal rows in a row one is searched for.
        new = (queries[1:] != queries[:-1]).any(axis=1) | (of[1:] != of[:-1])
        if new.all():
            found = self.find(queries, tokens, of)
        else:
            first = np.append(True, new)
            found = self.find(queries[first], tokens[first], of[first]).of(np.cumsum(first) - 1)
        distances = torch.from_numpy(found.distances).to(states.device)
        values = torch.from_numpy(found.values).to(states.device, torch.long)
        retrieved = Retrieved(states, log_probs, distances, values, found.ids)
        weights, lambda_ = self.combiner.combine(retrieved)
        return mixed(log_probs, weights, values, lambda_)

    def find(self, queries: np.ndarray, prefixes: np.ndarray, sentences: np.ndarray) -> Neighbours:
        """The k nearest keys of some hypotheses.

        queries: [rows, dim] their states; prefixes: [rows, length]; sentences: [rows]
        """
        return self.retriever.search(queries, self.combiner.k)
