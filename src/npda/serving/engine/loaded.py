"""The models of a server: loaded when they are first asked for, unloaded when they have been idle for a while.

A model that hears many languages is loaded once: what is told another language is ``Translator.hearing``, which has
all weights in common with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import sys
import time
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import torch

from npda.io.errors import InputError
from npda.models.hub import model_directory
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.translator import Translator

_LOOKS, _PAUSE = 50, 0.02  # whether a model is gone, and seconds between them

logger = logging.getLogger(__name__)


@dataclass
class _Model:
    """loading: done once the model is there; users: requests that need it now; left: when the last one went"""

    loading: asyncio.Task[Translator]
    users: int = 0
    left: float = 0.0
    hearing: dict[str, Translator] = field(default_factory=dict)  # by what is spoken


class LoadedModels:
    """For one event loop. All models are loaded by one thread, one at a time."""

    def __init__(
        self,
        settings: Settings,
        on_unload: Callable[[str], None] | None = None,
        loaded: Callable[[float], None] = lambda seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """on_unload: told the name of a model that is going, to drop what belongs to it; loaded: told how many seconds
        it took; clock: in seconds"""
        self._settings = settings
        self._on_unload = on_unload
        self._loaded = loaded
        self._clock = clock
        self._models: dict[str, _Model] = {}
        self._thread = ThreadPoolExecutor(1, "npda-load")

    def is_loaded(self, name: str) -> bool:
        model = self._models.get(name)
        return model is not None and _is_there(model)

    def check(self, name: str) -> None:
        """Refuse names that no model has."""
        if name not in self._settings.models:
            known = ", ".join(self._settings.models)
            raise Refusal(404, f"There is no model {name!r}; there is {known}.", "model", "model_not_found")

    @asynccontextmanager
    async def use(self, name: str, source_language: str | None = None) -> AsyncIterator[Translator]:
        """A model, which stays loaded as long as this lasts.

        source_language: what is spoken, for models that have to be told; by default what the settings say
        """
        self.check(name)
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = _Model(asyncio.create_task(self._load(name)))
        model.users += 1
        try:
            # Who goes away while a model is being loaded leaves it to those who wait for it too.
            translator = await asyncio.shield(model.loading)
            yield self._told(model, translator, source_language or self._settings.source_language)
        finally:
            model.users -= 1
            model.left = self._clock()

    async def unload_idle(self) -> list[str]:
        """Unload what has not been used for ``idle`` minutes. → names"""
        limit = self._settings.idle * 60
        names = [
            name
            for name, model in self._models.items()
            if limit > 0 and not model.users and model.loading.done() and self._clock() - model.left >= limit
        ]
        for name in names:
            await self.unload(name)
        return names

    async def unload(self, name: str) -> None:
        """Drop a model that is not in use, and give its memory back."""
        if self._models[name].users:
            raise ValueError(f"{name} is in use")
        backbone: weakref.ref[object] = weakref.ref(self._models.pop(name).loading.result().backbone)
        if self._on_unload is not None:
            self._on_unload(name)
        await asyncio.get_running_loop().run_in_executor(self._thread, _until_gone, backbone)
        await asyncio.get_running_loop().run_in_executor(self._thread, give_back)
        logger.info("unloaded %s", name)

    def close(self) -> None:
        self._models.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _load(self, name: str) -> Translator:
        started = self._clock()
        try:
            translator = await asyncio.get_running_loop().run_in_executor(self._thread, self._open, name)
        except BaseException as error:
            self._models.pop(name, None)  # the next request tries again
            if not isinstance(error, InputError):
                raise
            logger.error("%s cannot be loaded: %s", name, error)
            reason = f"The model {name} cannot be loaded; the server's log says why."
            raise Refusal(503, reason, "model", "model_not_loaded") from error
        seconds = self._clock() - started
        self._loaded(seconds)
        logger.info("loaded %s in %.1f s", name, seconds)
        if name in self._models:
            self._models[name].left = self._clock()
        return translator

    def _open(self, name: str) -> Translator:
        chosen = self._settings
        path = model_directory(chosen.models[name])
        return Translator.from_pretrained(path, int8=chosen.int8, device=chosen.device, precision=chosen.precision)

    def _told(self, model: _Model, translator: Translator, source_language: str | None) -> Translator:
        if source_language is None:
            return translator
        try:
            told = model.hearing.get(source_language) or translator.hearing(source_language)
        except InputError as error:
            raise Refusal(422, str(error), "language") from error
        if told is not translator:
            model.hearing[source_language] = told
        return told


def _is_there(model: _Model) -> bool:
    return model.loading.done() and not model.loading.cancelled() and model.loading.exception() is None


def _until_gone(thing: weakref.ref[object]) -> None:
    """Wait until nobody refers to it: a thread that has just answered may do so for another moment."""
    for _ in range(_LOOKS):
        gc.collect()
        if thing() is None:
            return
        time.sleep(_PAUSE)
    logger.warning("a model that is no longer served is still in use, so its memory is not freed")


def give_back() -> None:
    """Give memory that nobody refers to any more back to the system: Python, torch and glibc would keep it."""
    gc.collect()
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; others have none
        if trim is not None:
            trim(0)
