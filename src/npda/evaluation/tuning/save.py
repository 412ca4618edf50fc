"""Keeping the outcome of a tuning with its store; ``npda.decoding.knn.tuned`` reads it."""

from __future__ import annotations

from dataclasses import dataclass

from npda.datastore.card import renew_card
from npda.datastore.store import Datastore
from npda.decoding.knn.tuned import FILE, Tuned
from npda.decoding.knn.tuned_guard import FittedGuard, save_guard
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.objective import parameters
from npda.evaluation.tuning.search import Tuning
from npda.io.progress import stage
from npda.io.sealed import write_sealed


def save_tuned(store: Datastore, tuning: Tuning) -> Datastore:
    """Keep the best parameters and the scale of the distances with the store; gives the store that knows them."""
    tuned = Tuned(
        **parameters(tuning.best),  # pyright: ignore[reportArgumentType]
        way=tuning.way,
        beam=tuning.search.beam,
        length_penalty=tuning.length_penalty,
        end_weight=tuning.end_weight,
        bleu=round(tuning.bleu, 2),
        base_bleu=round(tuning.base_bleu, 2),
        chrf=round(tuning.outcome.chrf, 2),
        base_chrf=round(tuning.base.chrf, 2),
        store=store.digest,
    )
    write_sealed(store.path / FILE, tuned.model_dump(mode="json", by_alias=True))
    renew_card(store.path)
    return store.with_distance_scale(tuning.scale) if tuning.scale > 0 else store


@dataclass(frozen=True)
class GatedTuning:
    """A tuning, and the gate that was fitted with it, if there is a counter-store."""

    tuning: Tuning
    gate: FittedGuard | None = None

    def save(self, store: Datastore) -> None:
        """Keep both with the store."""
        save_tuned(store, self.tuning)
        if self.gate is not None:
            save_guard(store, self.gate)


def gated(tuning: Tuning, guarding: Guarding | None, progress: bool = False) -> GatedTuning:
    """A tuning with the gate of its guarding; the price of leaving the store on is measured now."""
    if guarding is None:
        return GatedTuning(tuning)
    with stage("measuring what general sentences lose", progress):
        price = None if tuning.best.is_inactive else guarding.price(tuning.setting)
    return GatedTuning(tuning, guarding.fitted(price))
