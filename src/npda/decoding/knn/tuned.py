"""What a datastore was tuned to, kept beside its keys: STORE/knn.json, STORE/adaptive.json."""

from __future__ import annotations

import logging
from dataclasses import replace

from npda.datastore.measured import TUNED as FILE
from npda.datastore.measured import TunedRecord, read_measured
from npda.datastore.store import Datastore
from npda.decoding.knn.adaptive import AdaptiveCombiner, load_adaptive
from npda.decoding.knn.combiners import Combiner, KnnOptions

logger = logging.getLogger(__name__)


class Tuned(TunedRecord):
    """All of ``knn.json``, as settings of a search."""

    @property
    def options(self) -> KnnOptions:
        return KnnOptions(self.k, self.lambda_, self.temperature)


def tuned_combiner(
    store: Datastore,
    k: int | None = None,
    lambda_: float | None = None,
    temperature: float | None = None,
    adaptive: bool = False,
) -> Combiner:
    """The combiner a store was tuned to: what is given counts, else what was tuned, else the defaults.

    adaptive: take the network that ``npda tune --adaptive`` has trained for the store instead
    """
    given = {name: v for name, v in (("k", k), ("lambda_", lambda_), ("temperature", temperature)) if v is not None}
    if adaptive and given:
        raise ValueError(f"the learned combiner chooses {', '.join(given)} itself: leave it out")
    return load_learned(store) if adaptive else replace(load_tuned(store) or KnnOptions(), **given)


def load_tuned(store: Datastore) -> KnnOptions | None:
    """The parameters tuned for a store, or None if it was never tuned."""
    tuned = load_tuned_record(store)
    return tuned.options if tuned else None


def load_tuned_record(store: Datastore) -> Tuned | None:
    """All that is known of a store's tuning, the length penalty included, or None if it was never tuned."""
    tuned = read_measured(store.path / FILE, Tuned)
    if tuned is not None:
        _check_unchanged(store, tuned.store)
    return tuned


def load_learned(store: Datastore) -> AdaptiveCombiner:
    """The combiner trained for a store by ``npda tune --adaptive``."""
    combiner, trained_for = load_adaptive(store.path)
    _check_unchanged(store, trained_for)
    return combiner


def _check_unchanged(store: Datastore, digest: str) -> None:
    if digest != store.digest:
        logger.warning("%s has changed since it was tuned: run `npda tune` again when there is time.", store.path)
