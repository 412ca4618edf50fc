"""From stores on disk to the fusion that lets them steer a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import Combiner
from npda.decoding.knn.fusion import EndVotes, KnnFusion
from npda.decoding.knn.guarded import GuardedFusion, GuardedStore
from npda.decoding.knn.tuned import load_tuned_record, tuned_combiner
from npda.decoding.knn.tuned_guard import load_guard, tuned_guard
from npda.models.backbone import Backbone


@dataclass(frozen=True)
class Chosen:
    """Settings that were given instead of those the stores were tuned to; see ``tuned_combiner``."""

    k: int | None = None
    lambda_: float | None = None
    temperature: float | None = None
    adaptive: bool = False
    combiner: Combiner | None = None
    length_penalty: float | None = None

    def __post_init__(self) -> None:
        others = (self.k, self.lambda_, self.temperature)
        if self.combiner is not None and (self.adaptive or others != (None, None, None)):
            raise ValueError("a combiner decides k, λ and T itself: leave them out")

    def combiner_of(self, store: Datastore) -> Combiner:
        if self.combiner is not None:
            return self.combiner
        return tuned_combiner(store, self.k, self.lambda_, self.temperature, self.adaptive)


def steer(
    backbone: Backbone, stores: Sequence[Datastore], counter: Datastore | None = None, chosen: Chosen = Chosen()
) -> KnnFusion | GuardedFusion:
    """Let stores steer the search, each with what it was tuned to.

    counter: general text, compared with which a store has to be near; without it the stores are searched as one and
    always speak, with what the first was tuned to: the paper's way
    """
    if counter is None:
        retriever = stores[0] if len(stores) == 1 else JoinedRetriever(stores)
        return KnnFusion(retriever, chosen.combiner_of(stores[0]), end_votes(backbone, stores[0]))
    return GuardedFusion([guarded_store(backbone, store, counter, chosen) for store in stores], counter)


def guarded_store(backbone: Backbone, store: Datastore, counter: Datastore, chosen: Chosen = Chosen()) -> GuardedStore:
    """A store behind its gate, with what it was tuned to."""
    tuned = load_tuned_record(store)
    own = tuned.length_penalty if tuned is not None and chosen.length_penalty is None else None
    guard, ends = tuned_guard(store, counter), end_votes(backbone, store)
    return GuardedStore(store, chosen.combiner_of(store), guard, ends, length_penalty=own)


def end_votes(backbone: Backbone, store: Datastore) -> EndVotes | None:
    """What a store's votes for the end of a sentence count, as it was tuned; None where they count in full."""
    tuned = load_tuned_record(store)
    return None if tuned is None or tuned.end_weight == 1 else EndVotes(backbone.target.eos, tuned.end_weight)


def tuned_search(stores: Sequence[Datastore], **options: Any) -> SearchOptions:
    """How to search with stores: with the length penalty that the first was tuned with, unless the options name one.

    Stores behind gates bring their own, which hold as far as the gates are open: then the search is the usual one.
    """
    tuned = load_tuned_record(stores[0]) if stores and "length_penalty" not in options else None
    if tuned is None or load_guard(stores[0]) is not None:
        return SearchOptions(**options)
    return SearchOptions(length_penalty=tuned.length_penalty, **options)
