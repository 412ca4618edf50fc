"""What was tuned and measured of a store, as its files say: STORE/knn.json, STORE/guard.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npda.io import limits
from npda.io.errors import InputError
from npda.io.sealed import read_sealed

TUNED, GUARD = "knn.json", "guard.json"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Record = TypeVar("Record", bound=_Part)


class TunedRecord(_Part):
    """All of ``knn.json``.

    length_penalty: of the search that these parameters go with; end_weight: how much the neighbours' votes for the end
    of the sentence count, 1 as any other; bleu, chrf, base_bleu, base_chrf: on dev, with the store and without;
    store: digest of what was tuned
    """

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


class GuardRecord(_Part):
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

    def lines(self) -> list[str]:
        """For people."""
        told = (
            f"gate: puts {self.domain:.0%} of the domain's sentences and {self.general:.0%} of the general ones on "
            f"their own side ({self.way})"
        )
        return [told, *([self.price.line()] if self.price else [])]


def read_measured(path: Path, record: type[Record]) -> Record | None:
    """What such a file holds; None where there is none, InputError where it is damaged."""
    if not path.exists():
        return None
    try:
        return record.model_validate(read_sealed(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise InputError(f"{path}: {place}: {first['msg']}; delete the file, or run `npda tune` again.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; delete the file, or run `npda tune` again.") from None
