"""What a datastore was tuned to, kept beside its keys: STORE/knn.json, STORE/adaptive.json."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npda.datastore.store import Datastore
from npda.decoding.knn.adaptive import AdaptiveCombiner, load_adaptive
from npda.decoding.knn.combiners import Combiner, KnnOptions
from npda.io.errors import InputError

FILE = "knn.json"

logger = logging.getLogger(__name__)


class Tuned(BaseModel):
    """All of ``knn.json``. store: digest of what was tuned; bleu, base_bleu: on dev"""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = 1
    k: Annotated[int, Field(ge=1)]
    lambda_: Annotated[float, Field(ge=0, le=1, alias="lambda")]
    temperature: Annotated[float, Field(gt=0)]
    way: Literal["speech", "text"]
    beam: Annotated[int, Field(ge=1)]
    length_penalty: float
    bleu: float
    base_bleu: float
    store: str


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
    path: Path = store.path / FILE
    if not path.is_file():
        return None
    try:
        tuned = Tuned.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"{path}: {place}: {first['msg']}; delete the file, or run `npda tune` again.") from None
    _check_unchanged(store, tuned.store)
    return KnnOptions(tuned.k, tuned.lambda_, tuned.temperature)


def load_learned(store: Datastore) -> AdaptiveCombiner:
    """The combiner trained for a store by ``npda tune --adaptive``."""
    combiner, trained_for = load_adaptive(store.path)
    _check_unchanged(store, trained_for)
    return combiner


def _check_unchanged(store: Datastore, digest: str) -> None:
    if digest != store.digest:
        logger.warning("%s has changed since it was tuned: run `npda tune` again when there is time.", store.path)
