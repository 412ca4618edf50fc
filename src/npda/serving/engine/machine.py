"""The thread that computes, and the line in front of it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from npda.io.cores import cores
from npda.serving.engine.batches import Utterance, decode
from npda.serving.engine.line import Line, Waiting
from npda.serving.engine.watch import Watch

logger = logging.getLogger(__name__)

_PATIENCE = 0.1  # of what the last batch took: how long the next one waits for company at most
_LONGEST_PATIENCE = 0.05  # seconds


@dataclass(eq=False)
class Work(Waiting):
    """Something short that is done alone, between two batches."""

    do: Callable[[], Any] = field(kw_only=True)


def default_threads() -> int:
    """As many as there are cores, unless OMP_NUM_THREADS says otherwise."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    return int(told) if told.isdecimal() and int(told) else cores()


class Machine:
    """For one event loop, on which all of it is called; only ``_compute`` is another thread's."""

    def __init__(self, batch: int, watch: Watch = Watch(), threads: int | None = None) -> None:
        """batch: utterances decoded together; threads: that compute together"""
        self.coming = 0  # utterances whose features are being computed: a batch may wait for them a moment
        self.seconds = 0.5  # that an utterance has taken lately
        self._most = batch
        self._watch = watch
        self.line = Line()
        self._results: dict[Waiting, asyncio.Future[Any]] = {}
        self._started: dict[Waiting, Callable[[], None]] = {}
        self._refusing: Exception | None = None
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "npda-machine", torch.set_num_threads, (threads or default_threads(),))
        self._serving: asyncio.Task[None] | None = None

    async def compute(self, item: Waiting, started: Callable[[], None] = lambda: None) -> Any:
        """Wait in the line for a turn; whoever is cancelled leaves it. started: called when the turn has come"""
        if self._refusing is not None:
            raise self._refusing
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        result = self._results[item] = asyncio.get_running_loop().create_future()
        self._started[item] = started
        self.line.add(item)
        self.stir()
        try:
            return await result
        finally:
            self.line.remove(item)
            self._results.pop(item, None)
            self._started.pop(item, None)

    def stir(self) -> None:
        """Something has changed that a batch may have waited for."""
        self._changed.set()

    async def stop(self, error: Exception) -> None:
        """Answer all that waits, or comes later, with an error; finish what is being computed."""
        self._refusing = error
        for item in self.line.clear():
            self._answer(item, error=error)
        self.stir()
        if self._serving is not None:
            await self._serving
        self._thread.shutdown(wait=False)

    async def _serve(self) -> None:
        size, took = 1, 0.0  # of the last batch
        while self._refusing is None:
            await self._company(size, min(_PATIENCE * took, _LONGEST_PATIENCE))
            size, took = await self._turn() or (size, took)

    async def _turn(self) -> tuple[int, float] | None:
        """Compute what is next. → how much it was, and how many seconds it took; None where nothing waits

        Nothing may hold on to what was computed when it is done, or a model that is to go would stay.
        """
        batch = self.line.next(self._most)
        if not batch:
            return None
        started = time.monotonic()
        for item in batch:
            self._started[item]()
            self._watch.phase("wait", started - item.entered)
        try:
            for item, (result, error) in zip(batch, await self._in_thread(batch), strict=True):
                self._answer(item, result, error)
        except Exception as error:  # whatever happens, the next batch has its turn
            logger.exception("a batch was broken off")
            for item in batch:
                self._answer(item, error=error)
        took = time.monotonic() - started
        self.seconds += 0.2 * (took / len(batch) - self.seconds)
        return len(batch), took

    async def _in_thread(self, batch: list[Any]) -> list[tuple[Any, Exception | None]]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._compute, batch)

    async def _company(self, size: int, patience: float) -> None:
        """Wait until there is work and, where it is likely to come at once, as much of it as in the last batch.

        Requests that were answered together are often followed by as many new ones.
        """
        await self._filled()
        deadline = asyncio.get_running_loop().time() + patience
        while len(self.line) < max(size, min(self._most, len(self.line) + self.coming)):
            self._changed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                break
        await self._filled()  # who waited may have gone meanwhile

    async def _filled(self) -> None:
        """Wait until there is work, or is not going to be any."""
        while not self.line and self._refusing is None:
            self._changed.clear()
            await self._changed.wait()

    def _answer(self, item: Waiting, result: Any = None, error: Exception | None = None) -> None:
        future = self._results.get(item)
        if future is None or future.done():  # whoever asked has gone
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _compute(self, batch: list[Any]) -> list[tuple[Any, Exception | None]]:
        """→ of each its result or its error"""
        started = time.monotonic()
        try:
            if isinstance(batch[0], Work):
                return [(batch[0].do(), None)]
            utterances: list[Utterance] = batch
            self._watch.batch(len(utterances))
            found = decode(utterances, self._watch.searches)
            self._watch.phase("search", time.monotonic() - started)
            return [(translation, None) for translation in found]
        except Exception as error:
            if len(batch) == 1:
                return [(None, error)]
            logger.exception("a batch of %d has failed and is gone through one by one", len(batch))
        return [answer for item in batch for answer in self._compute([item])]
