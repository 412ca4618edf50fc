"""Requests on one side, the machine on the other: utterances of many requests are decoded in common batches.

One thread computes, see ``npda.serving.engine.machine``. Another one hears: it cuts recordings at their pauses and
computes features, which keeps one core busy for a moment while the batch before is decoded. Everything else happens on
the event loop, without locks.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch

from npda.audio import SAMPLE_RATE
from npda.decoding.knn.fusion import NeighbourFusion
from npda.explanation.explain import explain
from npda.models.inputs import hear_batch
from npda.segmentation import Cutter, Pauses, Stretch, best_detector
from npda.serving.engine.asks import Library, Way
from npda.serving.engine.batches import Utterance, kind_of
from npda.serving.engine.lending import Lent, slices
from npda.serving.engine.loaded import LoadedModels
from npda.serving.engine.machine import Machine, Work
from npda.serving.engine.needs import Needs, Provider
from npda.serving.engine.places import Place, Places
from npda.serving.engine.watch import Watch
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.translation import Heard, Task, Translation, segment
from npda.translator import Translator
from npda.writers import Segment

if TYPE_CHECKING:
    from npda.explanation.records import Explanation

T = TypeVar("T")

_BLOCK = 30 * SAMPLE_RATE  # samples of a recording that are looked through for pauses at a time
_AHEAD = 2  # batches of a recording that may be under way
_SWEEP = 15.0  # seconds from one look for idle models to the next
_SHORTEST = SAMPLE_RATE // 10  # samples; what is shorter is heard with silence after it


class BatchingEngine:
    """The ``Engine`` of a server, for one event loop.

    library: None for a server without stores; on_unload: told the name of a model whose memory is given back, so that
    whoever keeps something for it drops it; threads: that compute together, by default as many as there are cores
    """

    def __init__(
        self,
        settings: Settings,
        library: Library | None = None,
        watch: Watch = Watch(),
        on_unload: Callable[[str], None] | None = None,
        threads: int | None = None,
    ) -> None:
        self.settings = settings
        self.models = LoadedModels(settings, on_unload, lambda seconds: watch.phase("load", seconds))
        self._provider = Provider(settings, self.models, library)
        self._watch = watch
        self._machine = Machine(settings.batch, watch, threads)
        self._places = Places(settings.queue)
        self._requests = 0  # accepted and not yet answered
        self._answered = asyncio.Event()
        self._closing = False
        self._ear = ThreadPoolExecutor(1, "npda-ear", torch.set_num_threads, (1,))
        self._sweeping: asyncio.Task[None] | None = None

    # What requests ask for

    async def utterance(self, samples: np.ndarray, way: Way, begins: Sequence[int] = ()) -> Translation:
        with self._accepted() as place:
            async with self._limit(), self._provider.needs(way) as asked:
                return await self._translate(object(), samples, asked, place, begins)

    async def segments(self, samples: np.ndarray, way: Way, pauses: Pauses = Pauses()) -> AsyncIterator[Segment]:
        """As ``Engine.segments``. The time limit is longer by the length of the recording."""
        deadline = self._now() + self.settings.timeout + len(samples) / SAMPLE_RATE
        async with AsyncExitStack() as stack:
            place = stack.enter_context(self._accepted())
            async with self._until(deadline):
                asked = await stack.enter_async_context(self._provider.needs(way))
            under_way: asyncio.Queue[tuple[Stretch, asyncio.Task[Translation]] | None] = asyncio.Queue()
            room = asyncio.Semaphore(_AHEAD * self.settings.batch)
            cutting = asyncio.create_task(self._cut(samples, asked, pauses, place, room, under_way))
            found: tuple[Stretch, asyncio.Task[Translation]] | None = None
            try:
                while True:
                    async with self._until(deadline):
                        found = await under_way.get()
                        if found is None:
                            await cutting
                            return
                        stretch, task = found
                        translation = await task
                    room.release()
                    yield segment(stretch, translation, asked.options)
            finally:
                cutting.cancel()
                await asyncio.gather(cutting, return_exceptions=True)
                left = [under_way.get_nowait() for _ in range(under_way.qsize())]
                tasks = [one[1] for one in (found, *left) if one is not None]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def explain(self, samples: np.ndarray, way: Way) -> Explanation:
        with self._accepted() as place:
            async with self._limit(), self._provider.needs(way) as asked:
                fusion = asked.steering.fusion
                if fusion is None:
                    raise Refusal(422, "Only what stores say can be explained: name a store.", "stores", "no_stores")
                heard = await self._hear(samples, asked.translator)

                def do() -> Explanation:
                    backbone = asked.translator.backbone
                    with torch.inference_mode():
                        memory = hear_batch(backbone, [heard.features], torch.tensor([asked.prompt]))
                    neighbours, way = cast(NeighbourFusion, fusion), asked.way
                    return explain(backbone, memory, neighbours, asked.options, way.language, terms=way.terms)

                return await self._work(do, place)

    async def run(self, model: str, work: Callable[[Translator], T]) -> T:
        with self._accepted() as place:
            async with self._limit(), self.models.use(model) as translator:
                return await self._work(lambda: work(translator), place)

    @asynccontextmanager
    async def lent(self, model: str, source_language: str | None = None) -> AsyncIterator[Lent]:
        async with self.models.use(model, source_language) as translator:
            yield Lent(translator, slices(self._machine))

    async def longest(self, model: str) -> float:
        async with self._limit(), self.models.use(model) as translator:
            return translator.backbone.max_frames / 100

    # What the server asks for

    @property
    def waiting(self) -> int:
        """Utterances that wait, or are about to."""
        return self._places.taken

    @property
    def in_line(self) -> int:
        """Of them, those that only wait for their turn."""
        return len(self._machine.line)

    def is_loaded(self, model: str) -> bool:
        return self.models.is_loaded(model)

    async def close(self, drain: bool = True) -> None:
        """Take no new requests; finish those that were accepted, or refuse what waits of them too.

        Nobody is waited for longer than a request may take.
        """
        self._closing = True
        if drain:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.timeout):
                    while self._requests:
                        self._answered.clear()
                        await self._answered.wait()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self._machine.stop(_closing())
        self._ear.shutdown(wait=False, cancel_futures=True)
        self._provider.close()
        self.models.close()

    # How a request goes through

    @contextmanager
    def _accepted(self) -> Iterator[Place]:
        """A request that the queue has a place for."""
        if self._closing:
            raise _closing()
        if self._places.all_taken:
            wait = math.ceil(min(60.0, max(1.0, self._places.taken * self._machine.seconds)))
            reason = "Too many requests are waiting: try again in a moment."
            raise Refusal(503, reason, code="busy", headers={"Retry-After": str(wait)})
        if self._sweeping is None and self.settings.idle > 0:
            self._sweeping = asyncio.create_task(self._sweep())
        self._requests += 1
        place = self._places.take()
        try:
            yield place
        finally:
            place.leave()
            self._requests -= 1
            self._answered.set()

    async def _hear(self, samples: np.ndarray, translator: Translator) -> Heard:
        longest = translator.backbone.max_frames / 100
        if len(samples) / SAMPLE_RATE > longest:
            reason = (
                f"The utterance is {len(samples) / SAMPLE_RATE:.0f} s long; this model takes {longest:.0f} s at once."
            )
            raise Refusal(413, reason, "file", "audio_too_long")

        def hear() -> Heard:
            started = time.monotonic()
            padded = np.pad(samples, (0, max(0, _SHORTEST - len(samples))))
            heard = replace(translator.hear(padded), duration=len(samples) / SAMPLE_RATE)
            self._watch.phase("hear", time.monotonic() - started)
            return heard

        self._machine.coming += 1
        try:
            return await self._in_ear(hear)
        finally:
            self._machine.coming -= 1
            self._machine.stir()

    async def _translate(
        self, request: object, samples: np.ndarray, asked: Needs, place: Place, begins: Sequence[int] = ()
    ) -> Translation:
        """request: whose turn it is"""
        translator, backbone = asked.translator, asked.translator.backbone
        if any(not 0 <= token < len(backbone.target) for token in begins):
            raise Refusal(422, "The translation cannot begin with tokens that this model does not have.", "begins")
        if len(asked.prompt) + len(begins) >= backbone.max_target:
            raise Refusal(422, "The translation begins with more tokens than this model can write.", "begins")
        heard = await self._hear(samples, translator)
        task = Task(heard, asked.prompt, tuple(begins), asked.way.terms)
        kind = kind_of(translator, task, asked.options)
        item = Utterance(
            request, kind, len(heard.features), self._now(),
            translator=translator, task=task, options=asked.options, steering=asked.steering,
        )  # fmt: skip
        return await self._machine.compute(item, place.leave)

    async def _cut(
        self,
        samples: np.ndarray,
        asked: Needs,
        pauses: Pauses,
        place: Place | None,
        room: asyncio.Semaphore,
        under_way: asyncio.Queue[tuple[Stretch, asyncio.Task[Translation]] | None],
    ) -> None:
        """Send the stretches of a recording to be translated, a few at a time; None follows the last.

        place: of the first one; room: for those under way, given back when they are handed over
        """
        request = object()
        tasks: set[asyncio.Task[Translation]] = set()  # not done yet
        try:
            detector = await self._in_ear(best_detector)
            cutter = Cutter(detector, asked.translator.within_reach(pauses))
            for start in range(0, max(1, len(samples)), _BLOCK):
                block, is_last = samples[start : start + _BLOCK], start + _BLOCK >= len(samples)
                for stretch in await self._in_ear(
                    lambda block=block, is_last=is_last: _hear_out(cutter, block, is_last)
                ):
                    await room.acquire()
                    while tasks and self._places.scarce:  # the rest of a recording leaves room for others
                        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    own, place = place or self._places.take(), None
                    task = asyncio.create_task(self._translate_stretch(request, stretch, asked, own))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    under_way.put_nowait((stretch, task))
        finally:
            under_way.put_nowait(None)

    async def _translate_stretch(self, request: object, stretch: Stretch, asked: Needs, place: Place) -> Translation:
        try:
            return await self._translate(request, stretch.samples, asked, place)
        finally:
            place.leave()

    async def _work(self, do: Callable[[], T], place: Place) -> T:
        return await self._machine.compute(Work(object(), None, 0, self._now(), do=do), place.leave)

    async def _in_ear(self, do: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._ear, do)

    def _now(self) -> float:
        return time.monotonic()

    def _limit(self) -> Any:
        return self._until(self._now() + self.settings.timeout)

    @asynccontextmanager
    async def _until(self, deadline: float) -> AsyncIterator[None]:
        limit = asyncio.timeout(deadline - self._now())
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise Refusal(504, "The request took longer than this server allows.", code="timeout") from None

    async def _sweep(self) -> None:
        """Unload idle models, again and again."""
        while True:
            await asyncio.sleep(min(_SWEEP, self.settings.idle * 60))
            await self.models.unload_idle()


def _hear_out(cutter: Cutter, block: np.ndarray, is_last: bool) -> list[Stretch]:
    """The stretches that end in a block of a recording, and in its last block also what is spoken until the end."""
    return [*cutter.hear(block), *(cutter.finish() if is_last else ())]


def _closing() -> Refusal:
    return Refusal(503, "The server is shutting down.", code="closing", headers={"Retry-After": "5"})
