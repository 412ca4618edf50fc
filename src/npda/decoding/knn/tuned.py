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
from npda.io import limits
from npda.io.errors import InputError
from npda.io.sealed import read_sealed

FILE = "knn.json"

logger = logging.getLogger(__name__)


class Tuned(BaseModel):
    """All of ``knn.json``.

    length_penalty: of the search that these parameters go with; end_weight: how much the neighbours' votes for the end
    of the sentence count, 1 as any other; bleu, chrf, base_bleu, base_chrf: on dev, with the store and without;
    store: digest of what was tuned
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = 1
    k: Annotated[int, Field(ge=limits.K.least, le=limits.K.most)]
    lambda_: Annotated[float, Field(ge=0, le=1, alias="lambda")]
    temperature: Annotated[float, Field(ge=limits.TEMPERATURE.least, le=limits.TEMPERATURE.most)]
    way: Literal["speech", "text"]
    beam: Annotated[int, Field(ge=1)]
    length_penalty: Annotated[float, Field(ge=limits.LENGTH_PENALTY.least, le=limits.LENGTH_PENALTY.most)]
    end_weight: Annotated[float, Field(ge=0, le=1)] = 1.0
    bleu: float
    base_bleu: float
    chrf: float | None = None
    base_chrf: float | None = None
    store: str

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
    path: Path = store.path / FILE
    if not path.is_file():
        return None
    try:
        tuned = Tuned.model_validate(read_sealed(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"{path}: {place}: {first['msg']}; delete the file, or run `npda tune` again.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; delete the file, or run `npda tune` again.") from None
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
