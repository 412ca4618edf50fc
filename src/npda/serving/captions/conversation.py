"""One live connection: frames of audio in, events out, until somebody ends it.

One task reads and one translates. Reading stops while too much speech waits, so that the client is held back by TCP and
nothing is dropped; whatever ends the reading, what was heard is made final before the last event, unless the client has
vanished: then everything under way is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import soxr
from starlette.websockets import WebSocketDisconnect

from npda.audio import SAMPLE_RATE
from npda.serving.captions.live import Captions
from npda.serving.errors import Refusal

NORMAL, GOING_AWAY, NO_SUCH_DATA, POLICY, BROKEN, LATER = 1000, 1001, 1003, 1008, 1011, 1013

_PIECE = SAMPLE_RATE // 4  # samples heard at a time, so that others have their turn
_NOT_TAKEN = (WebSocketDisconnect, OSError, RuntimeError, TimeoutError)  # what sending raises if nobody listens
_LEAST_COST = 0.005  # seconds of audio that the smallest frame counts for


class Socket(Protocol):
    """Of Starlette's WebSocket."""

    async def receive(self) -> Mapping[str, Any]: ...

    async def send_text(self, data: str) -> None: ...

    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


@dataclass(frozen=True)
class Limits:
    """frame: bytes; seconds: of audio in one connection; rate: seconds of audio a second, after the first ``burst``;
    idle: seconds without a frame that end it; patience: seconds a client may take to accept an event
    """

    frame: int = 1 << 18
    seconds: float = 2 * 3600.0
    rate: float = 8.0
    burst: float = 30.0
    idle: float = 60.0
    patience: float = 30.0
    buffer: float = 30.0  # seconds of speech that may wait for their final pass


@dataclass(frozen=True)
class Ending:
    """Why nothing more is read. done: what the last event says; message: an error's sentence"""

    code: int
    done: str = ""
    message: str = ""


class Vanished(Exception):
    """The client takes no more events."""


class Wrong(Exception):
    """What a client sent and should not have; the connection is closed with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


Opened = tuple[Captions, int]  # and the rate of the samples that come
Open = Callable[[Mapping[str, Any]], Awaitable[Opened]]


class Conversation:
    """A connection that has been accepted."""

    def __init__(
        self,
        socket: Socket,
        open: Open,
        limits: Limits = Limits(),
        busy: Callable[[], bool] = lambda: False,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """open: makes captions as a ``configure`` event asks for, {} for none; busy: whether partial texts must wait"""
        self._socket, self._open, self._limits, self._busy = socket, open, limits, busy
        self._clock, self._sleep = clock, sleep
        self._heard = asyncio.Event()  # something that may make a pass due
        self._eased = asyncio.Event()  # less speech waits
        self._over = False  # nothing more will be heard
        self._leaving = asyncio.Event()
        self._began = clock()
        self.seconds = 0.0  # of audio heard
        self._cost = 0.0  # seconds of audio that count against the rate

    def leave(self) -> None:
        """Finish what was heard, and close."""
        self._leaving.set()

    async def run(self) -> None:
        """From the first event to the close."""
        tasks: list[asyncio.Task[Any]] = []
        try:
            try:
                ending = await self._serve(tasks)
            finally:
                await _cancelled(*tasks)
            last = {"type": "error", "message": ending.message} if ending.message else {"type": "done"}
            await self._tell(last | ({"reason": ending.done} if ending.done else {}))
            await self._close(ending.code)
        except Vanished:
            pass
        except Wrong as wrong:
            await self._fail(wrong.code, wrong.message)
        except Refusal as refusal:
            await self._fail(close_code(refusal), refusal.message)
        except Exception:
            await self._fail(BROKEN, "Something went wrong here; the server's log tells more.")
            raise

    async def _serve(self, tasks: list[asyncio.Task[Any]]) -> Ending:
        """Until everything is told. tasks: receives those that are to be cancelled afterwards"""

        def start(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
            tasks.append(asyncio.create_task(coroutine))
            return tasks[-1]

        await self._configure({})
        reading, working, leaving = start(self._read()), start(self._work()), start(self._leaving.wait())
        await asyncio.wait({reading, working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()  # before the reading it only ends by an error
        ending = reading.result() if reading.done() else Ending(GOING_AWAY, "the server is stopping")
        await _cancelled(reading)
        self._captions.finish()
        self._over = True
        self._heard.set()
        watching = start(self._watch())
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Vanished
        working.result()
        return ending

    # Reading

    async def _read(self) -> Ending:
        first = True
        while True:
            await self._room()
            try:
                async with asyncio.timeout(self._limits.idle):
                    message = await self._socket.receive()
            except TimeoutError:
                return Ending(NORMAL, f"no audio came for {self._limits.idle:g} s")
            if message["type"] == "websocket.disconnect":
                raise Vanished
            data, text = message.get("bytes"), message.get("text")
            self._cost += _LEAST_COST
            if data is not None:
                first = False
                await self._hear(data)
                if self.seconds > self._limits.seconds:
                    return Ending(
                        POLICY, message=f"A connection takes {self._limits.seconds:g} s of audio: open another."
                    )
            elif await self._obey(read_event(text or "", self._limits.frame), first):
                return Ending(NORMAL, "end")

    async def _hear(self, data: bytes) -> None:
        if len(data) > self._limits.frame:
            raise Wrong(POLICY, f"A frame has {self._limits.frame} bytes at most, this one has {len(data)}.")
        if len(data) % 2:
            raise Wrong(NO_SUCH_DATA, "Frames hold 16-bit samples: their number of bytes is even.")
        samples = np.frombuffer(data, "<i2").astype(np.float32) / 32_768
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples)
        self.seconds += len(samples) / SAMPLE_RATE
        self._cost += len(samples) / SAMPLE_RATE
        for place in range(0, len(samples), _PIECE):
            self._captions.hear(samples[place : place + _PIECE])
            self._heard.set()
            await asyncio.sleep(0)

    async def _obey(self, event: Mapping[str, Any], first: bool) -> bool:
        """→ whether it was the end"""
        if event["type"] == "end":
            if self._resampler is not None:
                self._captions.hear(self._resampler.resample_chunk(np.empty(0, np.float32), last=True))
            return True
        if not first:
            raise Wrong(POLICY, "configure comes before the first audio.")
        await self._configure({name: value for name, value in event.items() if name != "type"})
        return False

    async def _configure(self, wishes: Mapping[str, Any]) -> None:
        self._captions, rate = await self._open(wishes)
        self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1) if rate != SAMPLE_RATE else None
        await self._tell({"type": "ready", "sample_rate": rate})

    async def _room(self) -> None:
        """Wait while too much speech waits, and as long as the client is faster than allowed."""
        if (waiting := self._captions.backlog) > self._limits.buffer:
            await self._tell({"type": "overload", "dropped_seconds": 0.0, "waiting_seconds": round(waiting, 1)})
            while self._captions.backlog > self._limits.buffer / 2:
                self._eased.clear()
                await self._eased.wait()
        await self._slow_down()

    async def _slow_down(self) -> None:
        """Wait as long as the client is faster than allowed."""
        ahead = self._cost - self._limits.burst - self._limits.rate * (self._clock() - self._began)
        if ahead > 0:
            await self._sleep(ahead / self._limits.rate)

    async def _watch(self) -> None:
        """Until the client vanishes; what it sends after the end is of no interest."""
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            self._cost += _LEAST_COST
            await self._slow_down()

    # Translating

    async def _work(self) -> None:
        while True:
            work = self._captions.due(busy=self._busy())
            if work is not None:
                for event in await self._captions.translate(work):
                    await self._tell(event.message())
                self._eased.set()
            elif self._over:
                return
            else:
                await self._heard.wait()
                self._heard.clear()

    # Telling

    async def _tell(self, event: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._limits.patience):
                await self._socket.send_text(json.dumps(event, ensure_ascii=False, allow_nan=False))
        except _NOT_TAKEN as error:
            raise Vanished from error

    async def _close(self, code: int) -> None:
        try:
            async with asyncio.timeout(self._limits.patience):
                await self._socket.close(code)
        except _NOT_TAKEN as error:
            raise Vanished from error

    async def _fail(self, code: int, message: str) -> None:
        try:
            await self._tell({"type": "error", "message": message})
            await self._close(code)
        except Vanished:
            pass


class Conversations:
    """All live connections of a server."""

    def __init__(self) -> None:
        self._running: set[Conversation] = set()
        self._draining = False
        self._left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def check(self, most: int) -> None:
        """Refuse one more if there are as many as may be, or if the server is stopping."""
        if self._draining:
            raise Refusal(503, "The server is stopping; connect again in a moment.", code="closing")
        if len(self._running) >= most:
            reason = f"There are {most} live connections already, which is all this server takes; try again later."
            raise Refusal(503, reason, code="busy", headers={"Retry-After": "30"})

    @contextmanager
    def running(self, conversation: Conversation) -> Iterator[None]:
        """For as long as it runs."""
        self._running.add(conversation)
        try:
            yield
        finally:
            self._running.discard(conversation)
            self._left.set()

    async def drain(self) -> None:
        """Take no new connections, and let all finish what they have heard. Call it before the engine is closed."""
        self._draining = True
        while self._running:
            self._left.clear()
            for conversation in self._running:
                conversation.leave()
            await self._left.wait()


def read_event(text: str, most: int) -> Mapping[str, Any]:
    """What a client says in words, checked: it ends, or configures before it begins."""
    if len(text) > most:
        raise Wrong(POLICY, f"An event has {most} characters at most.")
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        raise Wrong(NO_SUCH_DATA, "Text frames are JSON, audio comes in binary frames.") from None
    if not isinstance(event, dict) or event.get("type") not in ("end", "configure"):
        raise Wrong(NO_SUCH_DATA, 'An event is {"type": "end"}, or {"type": "configure", …} before the first audio.')
    return event


def close_code(refusal: Refusal) -> int:
    """As what a refusal of HTTP closes a connection that has been accepted."""
    if refusal.status in (429, 503, 504):
        return LATER
    return BROKEN if refusal.status >= 500 else POLICY


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
