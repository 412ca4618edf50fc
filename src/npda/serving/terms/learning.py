"""How the models of a server render terms: learnt once for each, a few at a time, between their batches."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from npda.corpus.languages import language_code
from npda.corpus.synthesis import Espeak
from npda.corpus.terms import Rendering, Term
from npda.datastore.counter import find_counter
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.io.errors import InputError
from npda.models.backbone import Backbone
from npda.serving.database import Database
from npda.serving.engine.asks import Engine, Way
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.serving.stores.library import StoreLibrary
from npda.terms.agreement import Observed
from npda.terms.agreement_learning import learn_agreement
from npda.terms.general import General, SearchedText
from npda.terms.learning import learn_few
from npda.terms.outputs import reading
from npda.terms.renderings import Learnt, Sources
from npda.translator import Translator

SLICE = 64  # terms that are learnt together
_MOST, _SHORT = 32, 0.25  # sentences that are translated between two batches, and seconds that they may take
_TRIES, _PAUSE = 60, 1.0  # while too many requests wait, and seconds in between
_SEARCH = SearchOptions(max_length=80)

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tongue:
    """What a rendering depends on besides its term.

    model: its name; decoder: its digest; spoken, written: codes, "" where they are unknown; general: digest of the text
    that it is learnt from, "" without; reads: whether the model has a text path
    """

    model: str
    decoder: str
    spoken: str
    written: str
    general: str
    reads: bool

    @property
    def stored(self) -> tuple[str, str, str]:
        """As the database has it."""
        return self.decoder, self.spoken, self.written


class Renderings:
    """What has been learnt, in memory and in the database. revision: another number when there is more"""

    def __init__(self, database: Database) -> None:
        self.revision = 0
        self._database = database
        self._known: defaultdict[tuple[str, str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
        for row in database.rows("SELECT * FROM renderings"):
            stored = row["decoder"], row["source_language"], row["language"]
            self._known[stored][row["term"]] = json.loads(row["learnt"])

    def of(self, tongue: Tongue, sources: Sources) -> Learnt | None:
        """None until they are learnt, from the text that there is now."""
        found = self._known[tongue.stored].get(_key(sources))
        return None if found is None or found["general"] != tongue.general else _learnt(found)

    def shown(self, decoder: str, sources: Sources) -> Learnt | None:
        """The same of any languages."""
        for stored, known in list(self._known.items()):
            if stored[0] == decoder and (found := known.get(_key(sources))) is not None:
                return _learnt(found)
        return None

    def observed(self, tongue: Tongue, sources: Sources, like: str) -> list[Observed] | None:
        found = self._known[tongue.stored].get(_key(sources, like))
        if found is None or found["general"] != tongue.general:
            return None
        return [Observed(r, like, tuple(before), tuple(after), times) for r, before, after, times in found["observed"]]

    def keep(self, tongue: Tongue, terms: Sequence[Sources], learnt: Sequence[Learnt]) -> None:
        new = {}
        for sources, found in zip(terms, learnt, strict=True):
            renderings = [(each.text, each.purity) for each in found.renderings]
            new[_key(sources)] = {"renderings": renderings, "contexts": found.contexts}
        self._keep(tongue, new)

    def keep_observed(self, tongue: Tongue, terms: Sequence[Term], observed: Sequence[Observed]) -> None:
        """terms: for which it was looked"""
        new = {}
        for term in terms:
            renderings = {each.text for each in term.renderings or ()}
            own = [seen for seen in observed if seen.like == term.like and seen.rendering in renderings]
            rows = [(seen.rendering, seen.before, seen.after, seen.times) for seen in own]
            new[_key(term.sources, term.like)] = {"observed": rows}
        self._keep(tongue, new)

    def _keep(self, tongue: Tongue, found: dict[str, dict[str, Any]]) -> None:
        new = {key: {"general": tongue.general, **each} for key, each in found.items()}
        rows = [(*tongue.stored, key, json.dumps(each, ensure_ascii=False)) for key, each in new.items()]
        self._database.change_many("INSERT OR REPLACE INTO renderings VALUES (?, ?, ?, ?, ?)", rows)
        self._known[tongue.stored].update(new)
        self.revision += 1


class TermLearner:
    """Asks the models of a server; for one event loop. All of it may raise ``Refusal``."""

    def __init__(self, settings: Settings, engine: Engine, library: StoreLibrary, database: Database) -> None:
        self.renderings = Renderings(database)
        self._settings, self._engine, self._library = settings, engine, library
        self._texts: weakref.WeakKeyDictionary[Backbone, SearchedText] = weakref.WeakKeyDictionary()
        self._tongues: dict[tuple[str, str | None, str | None], Tongue] = {}
        self._turn = asyncio.Lock()

    async def tongue(self, way: Way) -> Tongue:
        """Of a request."""
        spoken = way.source_language or self._settings.source_language
        written = way.language or self._settings.language
        asked = way.model, spoken, written
        if asked not in self._tongues:

            def look(translator: Translator) -> Tongue:
                told = _told(translator, spoken)
                counter = _counter(translator, written)
                decoder, _ = self._library.belongs(translator, way.model)
                general = counter.digest[:16] if counter is not None else ""
                heard = spoken or told.backbone.source_language
                said, wanted = (language_code(each) if each else "" for each in (heard, written))
                return Tongue(way.model, decoder, said, wanted, general, told.backbone.reads)

            self._tongues[asked] = await self._engine.run(way.model, look)
        return self._tongues[asked]

    def decoder(self, model: str) -> str:
        """The digest of a model's, "" where it was never loaded."""
        return (self._library.belongs_of(model) or ("", ""))[0]

    def lacking(self, tongue: Tongue, terms: Sequence[Term]) -> list[Sources]:
        """What is not learnt yet."""
        wanted = dict.fromkeys(term.sources for term in terms if term.renderings is None)
        return [sources for sources in wanted if self.renderings.of(tongue, sources) is None]

    async def learn(self, tongue: Tongue, terms: Sequence[Sources]) -> None:
        """Slice by slice, so that somebody who wants a few terms waits for one slice of a long list at most."""
        for few in slices(terms, SLICE):
            async with self._turn:
                left = [sources for sources in few if self.renderings.of(tongue, sources) is None]
                if left:
                    text = await self._text(tongue)
                    voice = None if tongue.reads else _voice(tongue.spoken)
                    translate = self._translating(tongue, voice) if tongue.reads or voice else None
                    learnt = await asyncio.to_thread(learn_few, left, text, translate, tongue.spoken or None)
                    self.renderings.keep(tongue, left, learnt)

    async def learn_articles(self, tongue: Tongue, terms: Sequence[Term]) -> None:
        """What changes before words of another gender. terms: with their renderings"""
        if not tongue.reads:
            return
        async with self._turn:
            left = [t for t in terms if self.renderings.observed(tongue, t.sources, t.like) is None]
            text = await self._text(tongue)
            if left and text is not None:
                translate = self._translating(tongue, None)

                def look_up(sources: Sequence[Sources], most: int) -> General:
                    return text.gather(sources, most)

                def read(sentences: Sequence[str]) -> dict[str, str]:
                    return {s: found for s, found in zip(sentences, translate(sentences), strict=True) if found}

                observed = await asyncio.to_thread(learn_agreement, left, look_up, read, tongue.spoken or None)
                self.renderings.keep_observed(tongue, left, observed)

    async def _text(self, tongue: Tongue) -> SearchedText | None:
        """The sentences of the counter-store; they are let go with the model."""
        if not tongue.general:
            return None

        def find(translator: Translator) -> tuple[weakref.ref[Backbone], SearchedText | None, Datastore | None]:
            known = self._texts.get(translator.backbone)
            return weakref.ref(translator.backbone), known, None if known else _counter(translator, tongue.written)

        backbone, known, counter = await self._engine.run(tongue.model, find)
        if known is None and counter is not None:
            known = await asyncio.to_thread(_searched, counter)
            if (still := backbone()) is not None:
                self._texts[still] = known
        return known

    def _translating(self, tongue: Tongue, voice: str | None) -> Callable[[Sequence[str]], list[str]]:
        """For another thread: lets the model translate sentences between its batches. voice: that speaks them"""
        loop = asyncio.get_running_loop()
        espeak = Espeak() if voice else None

        def translated(
            translator: Translator, few: Sequence[str], spoken: Sequence[np.ndarray]
        ) -> tuple[list[str], float]:
            started = time.monotonic()
            told = _told(translator, tongue.spoken)
            if spoken:
                heard = told.translate_all(spoken, _SEARCH, tongue.written or None, on_error=lambda _: None)
                texts = ["" if one is None else one.text for one in heard]
            else:
                texts = reading(told.backbone, _SEARCH, tongue.written or None)(few)
            return texts, time.monotonic() - started

        def translate(sentences: Sequence[str]) -> list[str]:
            found: list[str] = []
            size = 1
            while len(found) < len(sentences):
                few = sentences[len(found) : len(found) + size]
                spoken = [espeak.speak(sentence, voice) for sentence in few] if espeak and voice else []
                work = partial(translated, few=few, spoken=spoken)
                texts, took = asyncio.run_coroutine_threadsafe(self._patiently(tongue.model, work), loop).result()
                found += texts
                size = min(2 * size, _MOST) if took < _SHORT / 2 else max(1, size // 2) if took > _SHORT else size
            return found

        return translate

    async def _patiently(self, model: str, work: Callable[[Translator], T]) -> T:
        """Learning is in no hurry."""
        for _ in range(_TRIES):
            try:
                return await self._engine.run(model, work)
            except Refusal as refusal:
                if refusal.code != "busy":
                    raise
            await asyncio.sleep(_PAUSE)
        return await self._engine.run(model, work)


def slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _told(translator: Translator, spoken: str | None) -> Translator:
    try:
        return translator.hearing(spoken) if spoken else translator
    except InputError as error:
        raise Refusal(422, str(error), "language") from None


def _counter(translator: Translator, written: str | None) -> Datastore | None:
    try:
        found = find_counter(translator.backbone, translator.directory, (written and language_code(written)) or None)
    except InputError as error:
        logger.warning("Terms are learnt without general text: %s", error)
        return None
    return found.store if found is not None else None


def _searched(counter: Datastore) -> SearchedText:
    pairs = [pair for shard in counter.entries.shards for pair in shard.all_texts()]
    return SearchedText([pair for pair in pairs if all(pair)])


def _voice(spoken: str) -> str | None:
    """That reads terms aloud to a model without a text path."""
    name = "en-us" if spoken == "en" else spoken
    return name if name in Espeak().voices else None


def _key(sources: Sources, like: str | None = None) -> str:
    return json.dumps(list(sources) if like is None else {"sources": list(sources), "like": like}, ensure_ascii=False)


def _learnt(found: dict[str, Any]) -> Learnt:
    return Learnt(tuple(Rendering(text, purity) for text, purity in found["renderings"]), found["contexts"])
