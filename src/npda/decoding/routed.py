"""Sentences of one search that different stores steer: each row goes to the fusion of its sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from npda.datastore.retrieval.protocol import Retriever
from npda.decoding.fusion import Finish, Fusion, WeighingFusion, begin, length_penalties, new_search


class RoutedFusion:
    """Several fusions side by side, none of which sees the sentences of another.

    Sentences keep the numbers they have in the search, so that what a fusion remembers of them stays apart, and a
    fusion sees the steps of its sentences as it would see them alone. One search at a time.
    """

    def __init__(
        self, fusions: Sequence[Fusion], routes: Sequence[int | None], asked: Callable[[int], None] | None = None
    ) -> None:
        """routes: of every sentence of the search the place of its fusion, None for the model alone;
        asked: told at every step how many hypotheses are steered"""
        self.fusions = tuple(fusions)
        self.routes = tuple(routes)
        self._asked = asked
        self._route = np.array([-1 if route is None else route for route in self.routes], np.int64)

    @property
    def retrievers(self) -> list[Retriever]:
        return [retriever for fusion in self.fusions for retriever in getattr(fusion, "retrievers", ())]

    def for_sentences(self, sentences: Sequence[int]) -> RoutedFusion | None:
        """The same fusions for a search for some of the sentences; None if the model alone decides all of these."""
        routes = [self.routes[sentence] for sentence in sentences]
        return None if all(route is None for route in routes) else RoutedFusion(self.fusions, routes, self._asked)

    def new_search(self) -> None:
        for fusion in self.fusions:
            new_search(fusion)

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        return self.begin(states, prefixes, sentences)(log_probs)

    def begin(self, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
        routes = self._route[sentences.cpu().numpy()]  # [rows]
        parts: list[tuple[Tensor | None, Finish]] = []  # rows, None for all of them
        for route in np.unique(routes[routes >= 0]).tolist():
            of_route = routes == route
            if of_route.all():
                parts.append((None, begin(self.fusions[route], states, prefixes, sentences)))
            else:
                rows = torch.from_numpy(np.flatnonzero(of_route)).to(states.device)
                own = (states[rows], prefixes[rows], sentences[rows])
                parts.append((rows, begin(self.fusions[route], *own)))
        if self._asked is not None:
            self._asked(int((routes >= 0).sum()))

        def finish(log_probs: Tensor) -> Tensor:
            steered = log_probs
            for rows, finish_part in parts:
                if rows is None:
                    return finish_part(log_probs)
                steered = steered.index_copy(0, rows, finish_part(log_probs[rows]))
            return steered

        return finish

    def length_penalties(self, alphas: Tensor, sentences: Tensor) -> Tensor:
        routes, alphas = self._route[sentences.cpu().numpy()], alphas.clone()
        for route in np.unique(routes[routes >= 0]).tolist():
            rows = torch.from_numpy(np.flatnonzero(routes == route)).to(alphas.device)
            alphas[rows] = length_penalties([self.fusions[route]], alphas[rows], sentences[rows])
        return alphas

    def weights(self, prefix: np.ndarray, sentence: int) -> dict[str, float]:
        route = self.routes[sentence]
        fusion = None if route is None else self.fusions[route]
        return fusion.weights(prefix, sentence) if isinstance(fusion, WeighingFusion) else {}
