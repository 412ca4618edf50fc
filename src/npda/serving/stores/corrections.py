"""Corrected sentences: kept in the database, and laid over their stores the moment they are added."""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npda.datastore.retrieval.overlaid import Added, Overlay, Overlaying
from npda.serving.database import Database
from npda.serving.errors import Refusal

Belongs = tuple[str, str]  # digests of the decoder and of the vocabulary

_COLUMNS = "id, store, model, user, heard, text, language, created, length(tokens) / 4 AS keys"
_OVER = "decoder, vocabulary, dim, tokens, keys AS states"


@dataclass(frozen=True)
class Corrected:
    """What a correction makes of a sentence.

    audio: digest of its samples; heard: what was said, "" where unknown; text: what is to be written;
    language: of the text, None where the model has one only; keys: [n, dim] float32 with the precision of 16 bits;
    tokens: [n] of the text, end symbol included
    """

    audio: str
    heard: str
    text: str
    language: str | None
    keys: np.ndarray
    tokens: np.ndarray


@dataclass(frozen=True)
class Correction:
    """One that is kept. user: the name of the key that sent it; created: seconds since 1970; keys: their number"""

    id: str
    store: str
    model: str
    user: str
    heard: str
    text: str
    language: str | None
    created: float
    keys: int

    @property
    def source(self) -> str:
        return source_of(self.user)


def source_of(user: str) -> str:
    """The name of a user's own source, as neighbours show it."""
    return f"corrections by {user}"


class Corrections:
    """Implements ``Overlays``. Threads may share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.RLock()
        # Those without keys stay, so that versions go on counting and never mean something else.
        self._overlays: defaultdict[str, dict[Belongs, Overlaying]] = defaultdict(dict)
        for row in database.rows(f"SELECT {_COLUMNS}, {_OVER} FROM corrections ORDER BY number"):
            tokens = np.frombuffer(row["tokens"], dtype="<i4")
            keys = np.frombuffer(row["states"], dtype="<f2").reshape(len(tokens), row["dim"])
            self._lay(_told(row), (row["decoder"], row["vocabulary"]), keys, tokens)

    # what lies over the stores

    def of(self, store: str, belongs: Belongs) -> Overlay | None:
        with self._lock:
            found = self._overlays.get(store, {}).get(belongs)
            return found.overlay() if found is not None and len(found) else None

    def stores(self, belongs: Belongs | None = None) -> list[str]:
        with self._lock:
            return sorted(
                store
                for store, overlays in self._overlays.items()
                if any(len(each) for own, each in overlays.items() if belongs in (None, own))
            )

    def counts(self, store: str) -> dict[Belongs, int]:
        with self._lock:
            return {own: len(each) for own, each in self._overlays.get(store, {}).items() if len(each)}

    # what people do

    def add(self, store: str, model: str, belongs: Belongs, user: str, corrected: Corrected) -> Correction:
        """A sentence that is corrected once more has its new keys only."""
        created, dim = time.time(), corrected.keys.shape[1]
        with self._lock:
            new = Correction(
                f"corr_{secrets.token_hex(12)}", store, model, user,
                corrected.heard, corrected.text, corrected.language, created, len(corrected.tokens),
            )  # fmt: skip
            with self._database.together():
                same = [store, *belongs, corrected.audio, corrected.language]
                where = "store = ? AND decoder = ? AND vocabulary = ? AND audio = ? AND language IS ?"
                before = {row["id"] for row in self._database.rows(f"SELECT id FROM corrections WHERE {where}", *same)}
                self._database.change(f"DELETE FROM corrections WHERE {where}", *same)
                values = {
                    "id": new.id, "store": store, "model": model, "decoder": belongs[0], "vocabulary": belongs[1],
                    "user": user, "heard": new.heard, "text": new.text, "language": new.language,
                    "audio": corrected.audio, "created": created, "dim": dim,
                    "tokens": corrected.tokens.astype("<i4").tobytes(), "keys": corrected.keys.astype("<f2").tobytes(),
                }  # fmt: skip
                columns, places = ", ".join(values), ", ".join("?" * len(values))
                self._database.change(
                    f"INSERT INTO corrections (number, {columns}) "
                    f"VALUES ((SELECT COALESCE(MAX(number), 0) + 1 FROM corrections), {places})",
                    *values.values(),
                )
            if before:
                self._overlays[store][belongs].remove(before)
            self._lay(new, belongs, corrected.keys, corrected.tokens)
        return new

    def listed(self, store: str | None = None, user: str | None = None, most: int = 1_000) -> list[Correction]:
        """The latest first."""
        where, values = _where(store, user)
        query = f"SELECT {_COLUMNS} FROM corrections{where} ORDER BY number DESC LIMIT ?"
        return [_told(row) for row in self._database.rows(query, *values, most)]

    def remove(self, id: str) -> None:
        with self._lock:
            if not self._removed(" WHERE id = ?", [id]):
                raise Refusal(404, f"There is no correction {id[:64]!r}: GET /v1/corrections lists them.", "id")

    def remove_all(self, store: str, user: str | None = None) -> int:
        """Those of a store, or of a user's source in it. → how many there were"""
        return self._removed(*_where(store, user))

    def _removed(self, where: str, values: Sequence[str]) -> int:
        with self._lock:
            rows = self._database.rows(f"SELECT id, store, decoder, vocabulary FROM corrections{where}", *values)
            self._database.change(f"DELETE FROM corrections{where}", *values)
            gone: defaultdict[tuple[str, Belongs], set[str]] = defaultdict(set)
            for row in rows:
                gone[row["store"], (row["decoder"], row["vocabulary"])].add(row["id"])
            for (store, belongs), ids in gone.items():
                self._overlays[store][belongs].remove(ids)
            return len(rows)

    def _lay(self, correction: Correction, belongs: Belongs, keys: np.ndarray, tokens: np.ndarray) -> None:
        over = self._overlays[correction.store].setdefault(belongs, Overlaying(keys.shape[1]))
        over.add(Added(correction.id, correction.source, correction.heard, correction.text, keys, tokens))


def _where(store: str | None, user: str | None) -> tuple[str, list[str]]:
    given = {name: value for name, value in (("store", store), ("user", user)) if value is not None}
    conditions = " AND ".join(f"{name} = ?" for name in given)
    return (f" WHERE {conditions}" if given else ""), list(given.values())


def _told(row: sqlite3.Row) -> Correction:
    return Correction(**{name: row[name] for name in Correction.__dataclass_fields__})
