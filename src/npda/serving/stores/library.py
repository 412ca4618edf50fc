"""The stores of a server: found on disk, opened by versions, and brought together into what steers a search.

``settings.stores`` is only read; what the server makes lies in ``DATA/stores``, where each name is a link to the
version that is current, ``DATA/versions/ID/NAME``. A new version is published by replacing the link; the old folder is
removed when its last reader has gone. A store that is edited in place from outside is noticed by its files' times.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from npda.datastore.counter import FOLDER, STORE, cached_home, find_counter
from npda.datastore.fingerprint import decoder_fingerprint, vocabulary_digest
from npda.datastore.format import INFO
from npda.datastore.retrieval.overlaid import Overlay
from npda.datastore.store import Datastore
from npda.decoding.knn.untuned import distance_scale
from npda.io.errors import InputError
from npda.io.names import unknown
from npda.models.backbone import Backbone
from npda.serving.database import Database
from npda.serving.engine.asks import AUTO, StoreCard
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.serving.stores.cards import described, overlay_card
from npda.serving.stores.held import Counter, HeldStores, Member
from npda.serving.stores.overlay import Overlays
from npda.serving.stores.versions import Opening, Stamp, Version, current, stamp_of
from npda.translator import Translator

STORES, VERSIONS = "stores", "versions"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

logger = logging.getLogger(__name__)

Belongs = tuple[str, str]  # digests of the decoder and of the vocabulary


def check_name(name: str, what: str = "A store") -> str:
    """Refuse what could not be a folder's name everywhere, or would lead out of its folder."""
    if not NAME.fullmatch(name):
        raise Refusal(
            422,
            f"{what} cannot be called {name[:80]!r}: use up to 64 letters, digits, points, hyphens and underscores, "
            "beginning with a letter or a digit.",
            "name",
        )
    return name


def stores_in(folder: Path) -> list[Path]:
    """The stores of a folder, or the one that it is."""
    inside = [folder] if (folder / INFO).is_file() else sorted(folder.iterdir())
    return [path for path in inside if NAME.fullmatch(path.name) and (path / INFO).is_file()]


class StoreLibrary:
    """Implements ``asks.Library``. overlays: corrections, which lie over the stores; opening: whoever searches them"""

    def __init__(
        self, settings: Settings, database: Database, overlays: Overlays | None = None, opening: Opening = Datastore
    ) -> None:
        self.settings, self.database = settings, database
        self.overlays, self._opening = overlays, opening
        self.stores, self.versions = settings.data / STORES, settings.data / VERSIONS
        self.stores.mkdir(parents=True, exist_ok=True)
        self.versions.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._known: dict[str, Version] = {}
        self._retired: list[Version] = []
        self._broken: dict[str, str] = {}
        self._counters: dict[tuple[str, Belongs], tuple[Stamp, Counter]] = {}
        self._digests: weakref.WeakKeyDictionary[Backbone, Belongs] = weakref.WeakKeyDictionary()
        self._models = {
            row["name"]: (row["decoder"], row["vocabulary"]) for row in database.rows("SELECT * FROM models")
        }

    # what there is

    def cards(self, model: str | None = None) -> list[StoreCard]:
        with self._lock:
            names = sorted({*self._places(), *(self.overlays.stores() if self.overlays else ())})
            cards = [card for name in names for card in self._cards_of(name)]
        return [card for card in cards if model is None or card.model == model]

    def card(self, name: str) -> StoreCard:
        with self._lock:
            cards = self._cards_of(name)
        if not cards:
            raise self._unknown(name)
        return cards[0]

    def exists(self, name: str) -> bool:
        with self._lock:
            return name in self._places()

    def version(self, name: str) -> Version:
        """The present version of a store that lies on disk."""
        with self._lock:
            if (found := self._version(name)) is None:
                raise self._unknown(name)
            return found

    def belongs_of(self, model: str) -> Belongs | None:
        """Digests of a served model's decoder and vocabulary, if it was ever loaded."""
        return self._models.get(model)

    def belongs(self, translator: Translator, model: str | None = None) -> Belongs:
        """The same of a loaded one; they are computed once, and remembered under its name."""
        found = self._digests.get(translator.backbone)
        if found is None:
            found = decoder_fingerprint(translator.backbone).digest, vocabulary_digest(translator.backbone)
            self._digests[translator.backbone] = found
        if model is not None and self._models.get(model) != found:
            self._models[model] = found
            self.database.change("INSERT OR REPLACE INTO models VALUES (?, ?, ?)", model, *found)
        return found

    def model_of(self, belongs: Belongs) -> str:
        """The name of the served model that made some keys, "" if none is known to."""
        for name in self.settings.models:
            if self._models.get(name) == belongs:
                return name
        strangers = [name for name in self.settings.models if name not in self._models]
        # Until it is loaded, the only model is taken for the one that the stores were made with.
        return strangers[0] if len(self.settings.models) == 1 and strangers else ""

    # what is read

    def held(self, translator: Translator, model: str, names: tuple[str, ...] | Literal["auto"]) -> HeldStores:
        belongs = self.belongs(translator, model)
        for attempt in range(5):
            with self._lock:
                members = self._members(belongs, model, names)
                for version in (member.version for member in members if member.version is not None):
                    version.readers += 1
            held = HeldStores(members, self._counter(translator, belongs), self._release, automatic=names == AUTO)
            try:
                for member in members:
                    if member.version is not None:
                        member.version.open()
            except InputError as error:
                held.release()
                if attempt == 4 or all(m.version is None or self._is_current(m.version) for m in members):
                    raise Refusal(503, f"A store cannot be opened: {error}") from None
                continue
            except BaseException:
                held.release()
                raise
            return held
        raise AssertionError("unreachable")

    def forget(self, model: str) -> None:
        """Close what only this model uses, as it was unloaded; what is being read stays until it is released."""
        belongs = self._models.get(model)
        with self._lock:
            others = [self._models.get(name) for name in self.settings.models if name != model]
            if belongs is None or belongs in others:
                return
            for name, version in list(self._known.items()):
                if version.belongs_to == belongs:
                    self._retire(self._known.pop(name))
            self._counters = {key: value for key, value in self._counters.items() if key[1] != belongs}

    # what is changed

    @contextmanager
    def editing(self) -> Iterator[None]:
        """Nothing is opened while something is replaced."""
        with self._lock:
            yield

    def publish(self, name: str, folder: Path) -> None:
        """Make a finished store, ``DATA/versions/ID/NAME``, the current one of its name."""
        with self._lock:
            link = self.stores / name
            temporary = self.stores / f".{name}.{folder.parent.name}"
            temporary.unlink(missing_ok=True)
            os.symlink(os.path.relpath(folder, self.stores), temporary)
            os.replace(temporary, link)
            before = self._known.get(name)
            self._version(name)
            if before is None:
                self.tidy()

    def delete(self, name: str) -> None:
        """With its corrections. Its readers go on; it can no longer be found."""
        with self._lock:
            places = self._places()
            if name not in places:
                if self.overlays is None or not self.overlays.remove_all(name):
                    raise self._unknown(name)
                return
            if not places[name][1]:
                raise Refusal(403, f"The store {name} is only read by this server: remove it from its folder.")
            link = self.stores / name
            target = link.resolve()
            if link.is_symlink():
                link.unlink()
            else:  # put there by hand
                target = self.versions / f"deleted-{os.urandom(6).hex()}" / name
                target.parent.mkdir()
                os.rename(link, target)
            if (version := self._known.pop(name, None)) is not None:
                version.path = target if not target.is_symlink() else version.path
                self._retire(version)
            elif self.versions in target.parents:
                shutil.rmtree(target.parent, ignore_errors=True)
            if self.overlays is not None:
                self.overlays.remove_all(name)

    def tidy(self, wanted: Sequence[str] = ()) -> None:
        """Remove versions that have no name and no reader. wanted: folders that unfinished jobs still need"""
        with self._lock:
            used = {path.resolve().parent for path in self.stores.iterdir() if path.is_symlink()}
            used |= {version.path.parent for version in (*self._retired, *self._known.values())}
            for folder in self.versions.iterdir():
                if folder.resolve() not in used and folder.name not in wanted:
                    shutil.rmtree(folder, ignore_errors=True)

    # inside, under the lock

    def _places(self) -> dict[str, tuple[Path, bool]]:
        """Where each store lies, and whether the server may change it. What was made here comes first."""
        found: dict[str, tuple[Path, bool]] = {}
        for folder, editable in ((self.stores, True), (self.settings.stores, False)):
            if folder is None or not folder.is_dir():
                continue
            for path in stores_in(folder):
                found.setdefault(path.name, (path, editable))
        return found

    def _version(self, name: str) -> Version | None:
        place = self._places().get(name)
        known = self._known.get(name)
        found = None
        if place is not None:
            try:
                found = current(name, *place, known, self._opening)
                self._broken.pop(name, None)
            except InputError as error:
                if self._broken.get(name) != str(error):
                    logger.warning("The store %s is left out: %s", name, error)
                self._broken[name] = str(error)
        if found is not known:
            if known is not None:
                del self._known[name]
                self._retire(known)
            if found is not None:
                self._known[name] = found
        return found

    def _is_current(self, version: Version) -> bool:
        return stamp_of(version.path) == version.stamp and self._known.get(version.name) is version

    def _members(self, belongs: Belongs, model: str, names: tuple[str, ...] | Literal["auto"]) -> tuple[Member, ...]:
        if names == AUTO:
            every = sorted({*self._places(), *(self.overlays.stores(belongs) if self.overlays else ())})
            found = [self._member(name, belongs) for name in every]
            return tuple(member for member in found if member is not None)
        members = []
        for name in dict.fromkeys(names):
            if (member := self._member(name, belongs)) is None:
                if self._version(name) is None:
                    raise self._unknown(name)
                raise Refusal(
                    422, f"The store {name} was made for another model than {model}: choose one of its own.", "stores"
                )
            members.append(member)
        return tuple(members)

    def _member(self, name: str, belongs: Belongs) -> Member | None:
        version = self._version(name)
        if version is not None and version.belongs_to != belongs:
            version = None
        overlay: Overlay | None = self.overlays.of(name, belongs) if self.overlays else None
        return Member(name, version, overlay) if version is not None or overlay is not None else None

    def _release(self, members: Sequence[Member]) -> None:
        with self._lock:
            for member in members:
                if (version := member.version) is not None:
                    version.readers -= 1
                    if version.readers == 0 and version in self._retired:
                        self._retired.remove(version)
                        self._free(version)

    def _retire(self, version: Version) -> None:
        if version.readers:
            self._retired.append(version)
        else:
            self._free(version)

    def _free(self, version: Version) -> None:
        """The folder of an old version of ours goes; mappings go with the last object that holds them."""
        ours = self.versions.resolve()
        link = self.stores / version.name
        if ours in version.path.parents and not (link.is_symlink() and link.resolve() == version.path):
            shutil.rmtree(version.path.parent, ignore_errors=True)

    def _counter(self, translator: Translator, belongs: Belongs) -> Counter | None:
        backbone, directory = translator.backbone, translator.directory
        key = str(directory), belongs
        homes = [*([directory / FOLDER] if directory else []), cached_home(backbone)] if directory else []
        stamp = next((stamp for home in homes if (stamp := stamp_of(home / STORE)) is not None), None)
        with self._lock:
            known = self._counters.get(key)
            if stamp is None or (known is not None and known[0] == stamp):
                return known[1] if stamp is not None and known is not None else None
            try:
                found = find_counter(backbone, directory)
            except InputError as error:
                logger.warning("The counter-store of the model is left out: %s", error)
                return None
            if found is None:
                return None
            store: Datastore = found.store
            store.ready()
            counter = Counter(store, distance_scale(store))
            self._counters[key] = stamp, counter
            return counter

    def _cards_of(self, name: str) -> list[StoreCard]:
        cards = []
        version = self._version(name)
        corrected = self.overlays.counts(name) if self.overlays else {}
        if version is not None:
            model = self.model_of(version.belongs_to)
            cards.append(described(version, model, corrected.pop(version.belongs_to, 0)))
        cards += [overlay_card(name, self.model_of(belongs), keys) for belongs, keys in corrected.items()]
        return cards

    def _unknown(self, name: str) -> Refusal:
        if name in self._broken:
            return Refusal(409, f"The store {name} cannot be read: {self._broken[name]}", "stores", "store_broken")
        told: Any = unknown("store", name[:80], sorted(self._places()))
        return Refusal(404, told[0].upper() + told[1:], "stores", "store_not_found")
