"""What a request needs for as long as it lasts: a model, and the stores as they are now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from npda.corpus.languages import language_code
from npda.decoding.beam import SearchOptions
from npda.io.errors import InputError
from npda.models.backbone import HearsMany
from npda.serving.engine.asks import AUTO, Held, Library, Way
from npda.serving.engine.batches import Steering
from npda.serving.engine.loaded import LoadedModels
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.translator import Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Needs:
    """way: with the server's languages where the request names none; prompt, options: of the search"""

    translator: Translator
    way: Way
    prompt: list[int]
    options: SearchOptions
    steering: Steering


class Provider:
    """For one event loop. library: None for a server without stores"""

    def __init__(self, settings: Settings, models: LoadedModels, library: Library | None) -> None:
        self.settings, self.models, self.library = settings, models, library
        self._shelf = ThreadPoolExecutor(2, "npda-stores")  # which waits for the disk

    @asynccontextmanager
    async def needs(self, way: Way) -> AsyncIterator[Needs]:
        """Held as long as this lasts: the model stays loaded, and the stores stay as they are."""
        self.models.check(way.model)
        way = _with_languages(way, self.settings)
        async with self.models.use(way.model, way.source_language) as translator:
            prompt = _prompt(translator, way.language)
            if self.library is None or way.stores == ():
                if way.stores not in ((), AUTO):
                    raise Refusal(404, f"There is no store {way.stores[0]!r} on this server.", "stores", "no_store")
                yield Needs(translator, way, prompt, way.options or SearchOptions(), Steering(None, way))
                return
            held, steering, options = await self._hold(translator, way, self.library)
            try:
                yield Needs(translator, way, prompt, options, steering)
            finally:
                self._shelf.submit(_release, held)

    async def _hold(self, translator: Translator, way: Way, library: Library) -> tuple[Held, Steering, SearchOptions]:
        def hold() -> tuple[Held, Steering, SearchOptions]:
            held = library.held(translator, way.model, way.stores).__enter__()
            try:
                return held, Steering(held.fusion(translator, way), way, held.signature), held.options(way)
            except BaseException:
                _release(held)
                raise

        holding = asyncio.get_running_loop().run_in_executor(self._shelf, hold)
        try:
            return await asyncio.shield(holding)
        except asyncio.CancelledError:
            holding.add_done_callback(lambda done: None if done.exception() else _release(done.result()[0]))
            raise
        except InputError as error:
            raise Refusal(422, str(error), "stores") from error

    def close(self) -> None:
        self._shelf.shutdown(wait=False)


def _with_languages(way: Way, settings: Settings) -> Way:
    """With codes, and with the server's languages where the request names none."""
    try:
        spoken, written = way.source_language or settings.source_language, way.language or settings.language
        source = spoken and language_code(spoken)
    except InputError as error:
        raise Refusal(422, str(error), "language") from error
    try:
        return replace(way, source_language=source, language=written and language_code(written))
    except InputError as error:
        raise Refusal(422, str(error), "target_language") from error


def _prompt(translator: Translator, language: str | None) -> list[int]:
    backbone = translator.backbone
    try:
        return backbone.prompt(language)
    except InputError as error:
        untold = isinstance(backbone, HearsMany) and backbone.source_language is None
        raise Refusal(422, str(error), "language" if untold else "target_language") from error


def _release(held: Held) -> None:
    try:
        held.__exit__(None, None, None)
    except Exception:
        logger.exception("stores could not be released")
