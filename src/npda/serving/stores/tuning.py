"""Tuning of a store that was made of what somebody sent: on some of its own sentences, which are hidden meanwhile.

So nothing has to be held back: in the end all sentences are in the store. What is hidden with the sentences that are
tuned on is whatever gives them away, as `npda filter` finds it.
"""

from __future__ import annotations

import logging
import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from npda.corpus.leakage import LeakageFilter
from npda.corpus.pairs import Pair
from npda.datastore.card import renew_card
from npda.datastore.counter import find_counter
from npda.datastore.retrieval.hiding import Hiding
from npda.datastore.shards import Shard
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.adaptive import remove_adaptive
from npda.decoding.knn.tuned import FILE as TUNED
from npda.decoding.knn.tuned_guard import FILE as GUARD
from npda.decoding.knn.untuned import distance_scale
from npda.evaluation.devset import DevSet
from npda.evaluation.tuning.guard import Guarding
from npda.evaluation.tuning.save import gated
from npda.evaluation.tuning.search import tune
from npda.io.errors import InputError
from npda.io.progress import track
from npda.models.backbone import Backbone

SENTENCES, LEAST, SHARE = 100, 20, 5  # to tune on, at most and at least, and one of how many that may be
DECODES = 6
COST = 15 * SENTENCES * (DECODES + 6)  # about what it costs, in sentences that are read into a store

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldOut:
    """sentences: to tune on; hidden: ids of the keys that must not be found meanwhile, [n] int64"""

    sentences: list[Pair]
    hidden: np.ndarray


def tune_store(store: Datastore, backbone: Backbone, directory: Path | None, language: str | None) -> int:
    """Tune a store, and fit its gate where the model has a counter-store. → sentences it was tuned on

    0 where there are too few: then k, λ, T and the gate follow the rule for stores that were never tuned. What was
    tuned before goes in any case. directory: of the model; language: of sentences that do not name their own
    """
    for name in (TUNED, GUARD):
        (store.path / name).unlink(missing_ok=True)
    remove_adaptive(store.path)
    held_out = hold_out(store)
    if held_out is not None:
        try:
            return _tuned(store, held_out, backbone, directory, language)
        except InputError as error:
            logger.info("%s is not tuned: %s", store.path.name, error)
    if store.info.distance_scale is None and (scale := distance_scale(store)) is not None:
        store.with_distance_scale(scale)
    renew_card(store.path)
    return 0


def _tuned(
    store: Datastore, held_out: HeldOut, backbone: Backbone, directory: Path | None, language: str | None
) -> int:
    options, retriever = SearchOptions(), Hiding(store, held_out.hidden)
    guarding = _guarding(store, backbone, directory, language, options)
    tuning = tune(
        backbone, retriever, held_out.sentences, "text", options, DECODES, language=language, guarding=guarding
    )
    gated(tuning, guarding, progress=True).save(store)
    return tuning.sentences


def _guarding(
    store: Datastore, backbone: Backbone, directory: Path | None, language: str | None, options: SearchOptions
) -> Guarding | None:
    """As `npda tune` has it, with fewer general sentences; None without a counter-store of this language."""
    try:
        counter = find_counter(backbone, directory, language)
    except InputError as error:
        logger.info("%s is tuned without a gate: %s", store.path.name, error)
        return None
    if counter is None:
        return None
    return Guarding(store, counter.store, DevSet(backbone, counter.held_out[:SENTENCES], "text", language), options)


def hold_out(store: Datastore, seed: int = 0) -> HeldOut | None:
    """Draw sentences of a store to tune on; None where it has too few."""
    languages = {source.name: source.languages for source in store.info.sources}
    shards = store.entries.shards
    ends = list(accumulate(shard.info.sentences for shard in shards))
    count = min(SENTENCES, ends[-1] // SHARE) if ends else 0
    if count < LEAST:
        return None
    drawn: dict[tuple[str, str], Pair] = {}
    for number in random.Random(seed).sample(range(ends[-1]), count):
        place = bisect_right(ends, number)
        shard = shards[place]
        source, target = shard.texts(number - ends[place] + shard.info.sentences)
        if source.strip() and target.strip():
            own = languages[shard.info.source]
            drawn[source, target] = Pair(source, target, tgt_lang=own[0] if len(own) == 1 else "")
    if len(drawn) < LEAST:
        return None
    leakage = LeakageFilter(drawn.values())
    return HeldOut(list(drawn.values()), np.concatenate([*_leaking(store, leakage), np.zeros(0, np.int64)]))


def _leaking(store: Datastore, leakage: LeakageFilter) -> Iterator[np.ndarray]:
    """Ids of the keys of all sentences that give others away, shard by shard."""
    for shard in track(store.entries.shards, "looking for leaks"):
        yield _keys_of(shard, [n for n, texts in enumerate(shard.all_texts()) if leakage.find(Pair(*texts))])


def _keys_of(shard: Shard, sentences: list[int]) -> np.ndarray:
    return shard.first + np.flatnonzero(np.isin(shard.sentences, sentences))
