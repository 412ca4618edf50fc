"""What a server remembers besides its stores, in one SQLite file: ``DATA/npda.sqlite``."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npda.io.errors import InputError
from npda.io.locks import Lock

FILE = "npda.sqlite"
_LOCK = "npda.lock"
_BUSY = 10.0  # seconds to wait for somebody else who reads or backs up

# Each step takes the database from the version before to its own; a released step is never changed.
_STEPS = (
    """
    CREATE TABLE models (name TEXT PRIMARY KEY, decoder TEXT NOT NULL, vocabulary TEXT NOT NULL);
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY, number INTEGER NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, user TEXT NOT NULL,
        state TEXT NOT NULL, progress REAL NOT NULL DEFAULT 0, step TEXT NOT NULL DEFAULT '', error TEXT,
        created REAL NOT NULL, started REAL, ended REAL, spec TEXT NOT NULL, result TEXT
    );
    CREATE INDEX jobs_by_state ON jobs (state, number);
    CREATE TABLE corrections (
        id TEXT PRIMARY KEY, number INTEGER NOT NULL, store TEXT NOT NULL, model TEXT NOT NULL, decoder TEXT NOT NULL,
        vocabulary TEXT NOT NULL, user TEXT NOT NULL, heard TEXT NOT NULL, text TEXT NOT NULL, language TEXT,
        audio TEXT NOT NULL, created REAL NOT NULL, dim INTEGER NOT NULL, tokens BLOB NOT NULL, keys BLOB NOT NULL
    );
    CREATE INDEX corrections_by_store ON corrections (store, number);
    CREATE TABLE term_lists (name TEXT PRIMARY KEY, model TEXT, user TEXT NOT NULL, created REAL, changed REAL);
    CREATE TABLE term_pairs (
        list TEXT NOT NULL REFERENCES term_lists (name) ON DELETE CASCADE, place INTEGER NOT NULL,
        source TEXT NOT NULL, target TEXT NOT NULL, source_plural TEXT NOT NULL, target_plural TEXT NOT NULL,
        alike TEXT NOT NULL, PRIMARY KEY (list, source)
    );
    CREATE TABLE renderings (
        decoder TEXT NOT NULL, source_language TEXT NOT NULL, language TEXT NOT NULL, term TEXT NOT NULL,
        learnt TEXT NOT NULL, PRIMARY KEY (decoder, source_language, language, term)
    );
    """,
    """
    ALTER TABLE term_pairs ADD COLUMN renderings TEXT;
    """,
)
SCHEMA = len(_STEPS)


class Database:
    """One connection that all threads of the server share; only one server works on a data folder at a time."""

    def __init__(self, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self.path = data / FILE
        self._only = Lock(data / _LOCK)
        if not self._only.acquire():
            raise InputError(f"Another server works on {data}: stop it, or give this one a data folder of its own.")
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(self.path, timeout=_BUSY, check_same_thread=False, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._migrate()
        except sqlite3.DatabaseError as error:
            self._only.release()
            raise InputError(
                f"{self.path} is not a database of this server ({error}): restore it from a copy."
            ) from None
        except BaseException:
            self._only.release()
            raise

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        return next(iter(self.rows(query, *values)), None)

    def change(self, statement: str, *values: Any) -> int:
        """One statement that changes something; gives the number of rows it changed."""
        with self._lock:
            return self._connection.execute(statement, values).rowcount

    def change_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._lock:
            self._connection.executemany(statement, rows)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All changes inside happen, or none."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            self._connection.close()
        self._only.release()

    def _migrate(self) -> None:
        version: int = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            raise InputError(f"{self.path} was written by a later npda (schema {version}, this one knows {SCHEMA}).")
        for number, step in enumerate(_STEPS[version:], start=version + 1):
            self._connection.executescript(f"BEGIN; {step} PRAGMA user_version = {number}; COMMIT;")
