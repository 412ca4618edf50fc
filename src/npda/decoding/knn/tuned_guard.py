"""The guard that was fitted for a store, and the price that was measured with it: STORE/guard.json."""

from __future__ import annotations

import logging

from npda.datastore.card import renew_card
from npda.datastore.measured import GUARD as FILE
from npda.datastore.measured import GuardRecord, read_measured
from npda.datastore.store import Datastore
from npda.decoding.knn.guard import Guard
from npda.io.sealed import write_sealed

logger = logging.getLogger(__name__)


class FittedGuard(GuardRecord):
    """All of ``guard.json``, as the guard itself."""

    @property
    def guard(self) -> Guard:
        return Guard(self.slope, self.bias)


def save_guard(store: Datastore, fitted: FittedGuard) -> None:
    write_sealed(store.path / FILE, fitted.model_dump(mode="json"))
    renew_card(store.path)


def load_guard(store: Datastore) -> FittedGuard | None:
    """What was fitted for a store, or None if nothing was."""
    return read_measured(store.path / FILE, FittedGuard)


def tuned_guard(store: Datastore, counter: Datastore) -> Guard:
    """The guard of a store: as fitted, else the usual one; says so where it was fitted to something else."""
    fitted = load_guard(store)
    if fitted is None:
        if len(store) > len(counter):
            logger.warning(
                "%s has more keys than the counter-store, so that its gate may open for general speech: "
                "run `npda tune`, which fits it.",
                store.path,
            )
        return Guard()
    if fitted.counter != counter.digest or fitted.store != store.digest:
        logger.warning("%s or the counter-store has changed since its gate was fitted: run `npda tune`.", store.path)
    return fitted.guard
