"""What was tuned for a datastore, kept beside its keys: STORE/knn.json, STORE/adaptive.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npda.datastore.store import Datastore
from npda.decoding.knn.adaptive import AdaptiveCombiner, load_adaptive
from npda.decoding.knn.combiners import KnnOptions
from npda.evaluation.tuning.search import Tuning, parameters
from npda.io.errors import InputError
from npda.io.files import atomic_write

FILE = "knn.json"

logger = logging.getLogger(__name__)


class _Tuned(BaseModel):
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


def save_tuned(store: Datastore, tuning: Tuning) -> Datastore:
    """Keep the best parameters and the scale of the distances with the store; gives the store that knows them."""
    tuned = _Tuned(
        **parameters(tuning.best),  # pyright: ignore[reportArgumentType]
        way=tuning.way,
        beam=tuning.search.beam,
        length_penalty=tuning.search.length_penalty,
        bleu=round(tuning.bleu, 2),
        base_bleu=round(tuning.base_bleu, 2),
        store=store.digest,
    )
    with atomic_write(store.path / FILE) as temporary:
        temporary.write_text(tuned.model_dump_json(indent=2, by_alias=True) + "\n", encoding="utf-8")
    return store.with_distance_scale(tuning.scale) if tuning.scale > 0 else store


def load_tuned(store: Datastore) -> KnnOptions | None:
    """The parameters tuned for a store, or None if it was never tuned."""
    path: Path = store.path / FILE
    if not path.is_file():
        return None
    try:
        tuned = _Tuned.model_validate_json(path.read_bytes())
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
