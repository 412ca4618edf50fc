"""Stores that stay on: each steers where it is nearer than general text, elsewhere the model decides alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from npda.datastore.retrieval.overlaid import Overlaid
from npda.datastore.retrieval.protocol import Neighbours, Retriever
from npda.decoding.fusion import Beginnings, Finish
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.exact import Exact
from npda.decoding.knn.fusion import Asked, EndVotes, Say, begin_say, distinct_rows, end_signature, weigh
from npda.decoding.knn.guard import Guard, Openness, RecentNearness, Said, nearness, shares


@dataclass(frozen=True)
class GuardedStore:
    """A store with what it was tuned to.

    end_votes: by default as the paper's; exact: keys that decide once met; length_penalty: of what it is open for, by
    default that of the search
    """

    retriever: Retriever
    combiner: Combiner
    guard: Guard = field(default_factory=Guard)
    end_votes: EndVotes | None = None
    exact: Exact | None = None
    length_penalty: float | None = None

    def __str__(self) -> str:
        exact = f"|{self.exact}" if self.exact else ""
        length = "" if self.length_penalty is None else f"|α:{self.length_penalty:g}"
        return f"{self.combiner}{end_signature(self.end_votes)}{length}|{self.guard}{exact}"


class GuardedFusion:
    """The mixture of eq. 5 with several stores, the λ of each multiplied by its share of the say.

    p = Σ_s w_s·λ_s·p_kNN,s + (1 − Σ_s w_s·λ_s)·p_model. The share w_s is large where the hypothesis has been nearer to
    store s than to the counter-store, whose neighbours do not vote: see ``npda.decoding.knn.guard``. Keys that were met
    exactly come before all that, where a store has any: see ``npda.decoding.knn.exact``. One search at a time.
    """

    def __init__(self, stores: Sequence[GuardedStore], counter: Retriever) -> None:
        if not stores:
            raise ValueError("at least one store is needed")
        self.stores = [store for store in stores if not _is_inactive(store)] or list(stores[:1])
        self.counter = counter
        self._evidence = RecentNearness(len(self.stores))
        self._said = Said(len(self.stores), self._evidence.paths)
        self._open = Openness(len(self.stores))
        self._begins = Beginnings()

    def __str__(self) -> str:
        return "+".join(map(str, self.stores))

    @property
    def is_inactive(self) -> bool:
        return all(map(_is_inactive, self.stores))

    @property
    def retrievers(self) -> list[Retriever]:
        return [store.retriever for store in self.stores]

    def apply(self, states: Tensor, log_probs: Tensor, prefixes: Tensor, sentences: Tensor) -> Tensor:
        return self.begin(states, prefixes, sentences)(log_probs)

    def begin(self, states: Tensor, prefixes: Tensor, sentences: Tensor) -> Finish:
        if self.is_inactive:
            return lambda log_probs: log_probs  # the model itself, bit for bit
        return begin_say(self, states, prefixes, sentences)

    def new_search(self) -> None:
        self._begins.forget()

    def say(self, states: Tensor, log_probs: Tensor, asked: Asked) -> Say:
        if self._begins(asked.prefixes.shape[1]):
            self._evidence.begin()
            self._said.begin()
            self._open.begin()
        found, counter = self._find(asked)
        near = np.stack([nearness(n.distances[:, 0], counter.distances[:, 0]) for n in found], axis=1)
        evidence = self._evidence.add(near, asked.prefixes, asked.sentences)
        logits = [store.guard.logit(evidence[:, place]) for place, store in enumerate(self.stores)]
        opened = shares(np.stack(logits, axis=1))
        self._open.add(opened, asked.sentences)
        weights, values, lambdas = [], [], []
        for store, n, share in zip(self.stores, found, opened.T, strict=True):
            w, tokens, lambda_ = weigh(store.combiner, store.end_votes, states, log_probs, n)
            lambda_ = lambda_ * torch.from_numpy(share[:, None]).to(lambda_)
            weights.append(lambda_ * w)
            values.append(tokens)
            lambdas.append(lambda_)
        self._let_exact_decide(found, weights, lambdas)
        self._said.add(torch.cat(lambdas, dim=1).cpu().numpy())
        total = torch.stack(lambdas).sum(dim=0)
        columns = torch.cat(weights, dim=1)
        return Say(
            weights=torch.where(total > 0, columns / total, 0.0),
            values=torch.cat(values, dim=1),
            lambda_=total,
            distances=np.concatenate([n.distances for n in found], axis=1),
            ids=np.concatenate([n.ids for n in found], axis=1),
            stores=np.repeat(np.arange(len(found)), [n.ids.shape[1] for n in found]),
            opened=opened,
        )

    def length_penalties(self, alphas: Tensor, sentences: Tensor) -> Tensor:
        """α + Σ_s o_s·(α_s − α), with o_s how far the gate of store s has been open in the sentence, on average."""
        wanted = [store.length_penalty for store in self.stores]
        if self.is_inactive or all(own is None for own in wanted):
            return alphas
        opened = torch.from_numpy(self._open.mean(sentences.cpu().numpy())).to(alphas)
        towards = torch.stack([torch.full_like(alphas, own) if own is not None else alphas for own in wanted], dim=1)
        return alphas + (opened * (towards - alphas[:, None])).sum(dim=1)

    def weights(self, prefix: np.ndarray, sentence: int) -> dict[str, float]:
        """How much each store had to say in a hypothesis of the last search: its mean weight, w_s·λ_s, by its name.

        prefix: [length] what the hypothesis was before its last token; sentence: of those searched for together
        """
        means = self._said.mean(prefix, sentence)
        return {name_of(store.retriever): mean for store, mean in zip(self.stores, means, strict=True)}

    def _let_exact_decide(self, found: list[Neighbours], weights: list[Tensor], lambdas: list[Tensor]) -> None:
        """Where keys were met exactly, they get their weight, shared by the stores that have some; the rest goes on.

        weights: [rows, k] λ·w of every store; lambdas: [rows, 1]; both are changed
        """
        met = [
            store.exact.met(n) if store.exact is not None else np.zeros(n.ids.shape, np.float32)
            for store, n in zip(self.stores, found, strict=True)
        ]
        sharing = sum(shares.any(axis=1, keepdims=True).astype(np.float32) for shares in met)  # [rows, 1] stores
        if not np.any(sharing):
            return
        given = [
            shares * (store.exact.weight if store.exact else 0.0) / np.maximum(sharing, 1)
            for store, shares in zip(self.stores, met, strict=True)
        ]
        left = 1 - sum(part.sum(axis=1, keepdims=True) for part in given)
        for place, part in enumerate(given):
            rest, more = (torch.from_numpy(np.asarray(each, np.float32)).to(weights[place]) for each in (left, part))
            weights[place] = rest * weights[place] + more
            lambdas[place] = rest * lambdas[place] + more.sum(dim=1, keepdim=True)

    def _find(self, asked: Asked) -> tuple[list[Neighbours], Neighbours]:
        """Of every store its k nearest keys, of the counter-store the nearest."""
        different, places = distinct_rows(asked)
        found = [store.retriever.search(different.queries, store.combiner.k) for store in self.stores]
        counter = self.counter.search(different.queries, 1)
        if places is None:
            return found, counter
        return [n.of(places) for n in found], counter.of(places)


def _is_inactive(store: GuardedStore) -> bool:
    return store.combiner.is_inactive and store.exact is None


def name_of(retriever: Retriever) -> str:
    """Of its store: the folder's alone, since a path would tell readers about the disk it lies on."""
    if isinstance(retriever, Overlaid):
        return retriever.name
    store = getattr(retriever, "store", retriever)
    path = getattr(store, "path", None)
    return path.name if path is not None else "store"
