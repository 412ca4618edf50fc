"""What people told of a store when they made it, and what came of it: ``STORE/card.json``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from npda.io.records import write_record

FILE = "card.json"

logger = logging.getLogger(__name__)


class SourceCard(BaseModel):
    """Of one source. user: the name of the key that sent it; added: seconds since 1970"""

    model_config = ConfigDict(frozen=True, extra="forbid")

    licence: str = ""
    origin: str = ""
    user: str = ""
    added: float | None = None


class Card(BaseModel):
    """All of ``card.json``; stores that were built elsewhere have none.

    sources: by their names; tuned_keys: of the store when it was tuned; by: "rule" where there was too little text
    to tune on
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    sources: dict[str, SourceCard] = {}
    tuned_keys: int | None = None
    held_out: int = 0
    by: Literal["", "text", "rule"] = ""


def read_card(store: Path) -> Card:
    """What is told of a store; nothing where the file is missing or damaged, as no translation depends on it."""
    try:
        return Card.model_validate_json((store / FILE).read_bytes())
    except FileNotFoundError:
        return Card()
    except (OSError, ValidationError) as error:
        logger.warning("%s is damaged (%s): the card is left out.", store / FILE, type(error).__name__)
        return Card()


def write_card(store: Path, card: Card) -> None:
    write_record(store / FILE, card.model_dump(mode="json"))
