"""The guard that was fitted for a store, and the price that was measured with it: STORE/guard.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npda.datastore.store import Datastore
from npda.decoding.knn.guard import Guard
from npda.io.errors import InputError
from npda.io.sealed import read_sealed, write_sealed

FILE = "guard.json"

logger = logging.getLogger(__name__)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Price(_Part):
    """What the store left on does to general sentences: scores with it and of the model alone.

    way: how the sentences went into the model; p_bleu, p_chrf: of a paired bootstrap
    """

    sentences: Annotated[int, Field(ge=1)]
    way: Literal["speech", "text"]
    bleu: float
    base_bleu: float
    p_bleu: float
    chrf: float
    base_chrf: float
    p_chrf: float

    def line(self) -> str:
        """For people."""
        return (
            f"left on for {self.sentences} general sentences ({self.way}): BLEU {self.base_bleu:.1f} → {self.bleu:.1f} "
            f"(p {self.p_bleu:.3f}), chrF {self.base_chrf:.1f} → {self.chrf:.1f} (p {self.p_chrf:.3f})"
        )


class FittedGuard(_Part):
    """All of ``guard.json``.

    way: how the sentences it was fitted on went into the model; domain, general: how many sentences of either side it
    puts on their own side, a share; counter, store: digests of the two stores; price: where it was measured
    """

    format: Literal[1] = 1
    slope: Annotated[float, Field(ge=0)]
    bias: float
    way: Literal["speech", "text"]
    domain: Annotated[float, Field(ge=0, le=1)]
    general: Annotated[float, Field(ge=0, le=1)]
    counter: str
    store: str
    price: Price | None = None

    @property
    def guard(self) -> Guard:
        return Guard(self.slope, self.bias)

    def lines(self) -> list[str]:
        """For people."""
        told = (
            f"gate: puts {self.domain:.0%} of the domain's sentences and {self.general:.0%} of the general ones on "
            f"their own side ({self.way})"
        )
        return [told, *([self.price.line()] if self.price else [])]


def save_guard(store: Datastore, fitted: FittedGuard) -> None:
    write_sealed(store.path / FILE, fitted.model_dump(mode="json"))


def load_guard(store: Datastore) -> FittedGuard | None:
    """What was fitted for a store, or None if nothing was."""
    path: Path = store.path / FILE
    if not path.is_file():
        return None
    try:
        return FittedGuard.model_validate(read_sealed(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"{path}: {place}: {first['msg']}; delete the file, or run `npda tune` again.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; delete the file, or run `npda tune` again.") from None


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
