"""Lists of terms that people share: kept in the database, changed pair by pair."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from npda.corpus.terms import Rendering, Term
from npda.serving.database import Database
from npda.serving.errors import Refusal
from npda.serving.stores.library import check_name

MOST_PAIRS = 20_000  # of a list
SEPARATOR = " | "  # between ways to say a term


@dataclass(frozen=True)
class Entry:
    """A line of a list.

    sources: ways to say it; like: a word that takes the articles of the target; renderings, plural_renderings: that
    somebody has given, None where they are to be learnt
    """

    sources: tuple[str, ...]
    target: str
    source_plural: tuple[str, ...] = ()
    target_plural: str = ""
    like: str = ""
    renderings: tuple[Rendering, ...] | None = None
    plural_renderings: tuple[Rendering, ...] | None = None

    @property
    def source(self) -> str:
        return SEPARATOR.join(self.sources)

    def terms(self) -> list[Term]:
        found = [Term(self.sources, self.target, self.like, self.renderings)]
        if self.target_plural:
            sources = self.source_plural or self.sources
            found.append(Term(sources, self.target_plural, "", self.plural_renderings, plural=True))
        return found


@dataclass(frozen=True)
class TermList:
    """model: that it is meant for, None for any; user: the name of the key that made it"""

    name: str
    model: str | None
    user: str
    created: float
    changed: float
    pairs: int


def entries_of(terms: Iterable[Term]) -> list[Entry]:
    """As a file has them: every plural comes after its singular."""
    found: list[Entry] = []
    for term in terms:
        if not term.plural:
            found.append(Entry(term.sources, term.target, like=term.like, renderings=term.renderings))
        elif found and not found[-1].target_plural:
            sources = term.sources if term.sources != found[-1].sources else ()
            found[-1] = replace(
                found[-1], source_plural=sources, target_plural=term.target, plural_renderings=term.renderings
            )
        else:
            raise Refusal(422, f"{term.source!r} is a plural without its singular before it.", "pairs")
    return found


class TermLists:
    """Threads may share it. revision: another number after every change"""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.RLock()
        self.revision = 0

    def all(self, model: str | None = None) -> list[TermList]:
        """Those of a model, and those of any, in the order of their names."""
        query = (
            "SELECT name, model, user, created, changed, "
            "(SELECT COUNT(*) FROM term_pairs WHERE list = name) AS pairs FROM term_lists ORDER BY name"
        )
        lists = [TermList(**row) for row in self._database.rows(query)]
        return [each for each in lists if model is None or each.model in (None, model)]

    def about(self, name: str) -> TermList:
        found = next((each for each in self.all() if each.name == name), None)
        if found is None:
            raise _unknown(name)
        return found

    def entries(self, name: str) -> list[Entry]:
        with self._lock:
            if not self._database.row("SELECT 1 FROM term_lists WHERE name = ?", name):
                raise _unknown(name)
            rows = self._database.rows("SELECT * FROM term_pairs WHERE list = ? ORDER BY place", name)
        return [_entry(row) for row in rows]

    def create(self, name: str, model: str | None, user: str, entries: Sequence[Entry]) -> TermList:
        check_name(name, "A list")
        now = time.time()
        with self._changing():
            if self._database.row("SELECT 1 FROM term_lists WHERE name = ?", name):
                raise Refusal(
                    409, f"There is a list {name} already: PUT /v1/terms/{name} replaces it.", "name", "name_taken"
                )
            self._database.change("INSERT INTO term_lists VALUES (?, ?, ?, ?, ?)", name, model, user, now, now)
            self._fill(name, entries)
        return self.about(name)

    def replace(self, name: str, entries: Sequence[Entry]) -> TermList:
        """All pairs of a list."""
        with self._changing(name):
            self._database.change("DELETE FROM term_pairs WHERE list = ?", name)
            self._fill(name, entries)
        return self.about(name)

    def put(self, name: str, source: str, entry: Entry) -> bool:
        """Change the pair of a source, or add it at the end. → whether it is new"""
        with self._changing(name):
            entries = self.entries(name)
            known = {each.source: place for place, each in enumerate(entries)}
            source = _normal(source)
            place = known.get(source, len(entries))
            entries[place : place + 1] = [entry]
            self._database.change("DELETE FROM term_pairs WHERE list = ?", name)
            self._fill(name, entries)
            return source not in known

    def delete_pair(self, name: str, source: str) -> None:
        with self._changing(name):
            source = _normal(source)
            if not self._database.change("DELETE FROM term_pairs WHERE list = ? AND source = ?", name, source):
                raise Refusal(404, f"The list {name} has no {source[:80]!r}: GET /v1/terms/{name} shows it.", "source")

    def delete(self, name: str) -> None:
        with self._changing(name):
            self._database.change("DELETE FROM term_lists WHERE name = ?", name)

    @contextmanager
    def _changing(self, name: str | None = None) -> Iterator[None]:
        """All changes inside happen, or none. name: of a list that there is"""
        with self._lock, self._database.together():
            now = time.time()
            if name is not None and not self._database.change(
                "UPDATE term_lists SET changed = ? WHERE name = ?", now, name
            ):
                raise _unknown(name)
            yield
            self.revision += 1

    def _fill(self, name: str, entries: Sequence[Entry]) -> None:
        """Into an empty list."""
        if len(entries) > MOST_PAIRS:
            raise Refusal(422, f"A list may have {MOST_PAIRS} terms at most: make several.", "pairs")
        seen: set[tuple[str, bool]] = set()
        for entry in entries:
            for term in entry.terms():
                for source in term.sources:
                    if (source.casefold(), term.plural) in seen:
                        raise Refusal(422, f"{source!r} is in the list twice; delete one of the two.", "pairs")
                    seen.add((source.casefold(), term.plural))
        self._database.change_many(
            "INSERT INTO term_pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    name, place, entry.source, entry.target, SEPARATOR.join(entry.source_plural), entry.target_plural,
                    entry.like, _packed(entry),
                )
                for place, entry in enumerate(entries)
            ],
        )  # fmt: skip


def _entry(row: sqlite3.Row) -> Entry:
    given: dict[str, list[tuple[str, float]] | None] = json.loads(row["renderings"] or "{}")
    one, many = (
        None if (found := given.get(form)) is None else tuple(Rendering(*each) for each in found)
        for form in ("singular", "plural")
    )
    sources, plural = _parts(row["source"]), _parts(row["source_plural"])
    return Entry(sources, row["target"], plural, row["target_plural"], row["alike"], one, many)


def _packed(entry: Entry) -> str | None:
    """The renderings that were given, as JSON."""
    forms = {"singular": entry.renderings, "plural": entry.plural_renderings}
    given = {
        form: [(each.text, each.purity) for each in renderings]
        for form, renderings in forms.items()
        if renderings is not None
    }
    return json.dumps(given, ensure_ascii=False) if given else None


def _normal(source: str) -> str:
    return SEPARATOR.join(" ".join(part.split()) for part in source.split("|"))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(SEPARATOR)) if text else ()


def _unknown(name: str) -> Refusal:
    return Refusal(
        404, f"There is no list {name[:80]!r}: GET /v1/terms shows those there are.", "terms", "list_not_found"
    )
