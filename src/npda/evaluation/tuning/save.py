"""Keeping the outcome of a tuning with its store; ``npda.decoding.knn.tuned`` reads it."""

from __future__ import annotations

from npda.datastore.store import Datastore
from npda.decoding.knn.tuned import FILE, Tuned
from npda.evaluation.tuning.objective import parameters
from npda.evaluation.tuning.search import Tuning
from npda.io.files import atomic_write


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
    with atomic_write(store.path / FILE) as temporary:
        temporary.write_text(tuned.model_dump_json(indent=2, by_alias=True) + "\n", encoding="utf-8")
    return store.with_distance_scale(tuning.scale) if tuning.scale > 0 else store
