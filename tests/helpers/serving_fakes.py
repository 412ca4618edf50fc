"""An engine and a library that need no model, and a server on a free port."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from npda.serving.engine.asks import StoreCard, Way
from npda.serving.engine.lending import Lent
from npda.serving.errors import Refusal
from npda.serving.listening import server
from npda.translation import Translation
from npda.writers import Segment

SEGMENT = 2.0  # seconds
PATIENCE = 400.0  # seconds after which something hangs


class FakeEngine:
    """Every two seconds of audio are a segment.

    busy: refuse with 503; refuses: so many requests are, then no more; hold: wait for it to be set before answering
    """

    def __init__(self) -> None:
        self.ways: list[Way] = []
        self.busy, self.refuses, self.cancelled, self.begun, self.ended = False, 0, 0, 0, 0
        self.hold: asyncio.Event | None = None
        self.fails_at: int | None = None
        self.waiting = 0
        self.translator: Any = None

    async def utterance(self, samples: np.ndarray, way: Way, begins: Sequence[int] = ()) -> Translation:
        return Translation("Ein Satz.", -0.5, len(samples) / 16_000)

    async def segments(self, samples: np.ndarray, way: Way, pauses: Any = None) -> AsyncGenerator[Segment, None]:
        if self.busy or self.refuses:
            self.refuses = max(0, self.refuses - 1)
            raise Refusal(503, "Too many requests are waiting.", code="busy", headers={"Retry-After": "3"})
        self.ways.append(way)
        self.begun += 1
        try:
            seconds, place = len(samples) / 16_000, 0
            while place * SEGMENT < seconds:
                await asyncio.sleep(0)
                if self.hold is not None:
                    await self.hold.wait()
                if self.fails_at == place:
                    raise Refusal(504, "It took too long.", code="timeout")
                end = min(seconds, (place + 1) * SEGMENT)
                yield Segment(place * SEGMENT, end, f"Satz {place}.", -0.5, stores=(("parliament", 0.25),))
                place += 1
            self.ended += 1
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled += 1
            raise

    async def explain(self, samples: np.ndarray, way: Way) -> Any:
        raise Refusal(422, "Only stores can be explained.", "stores")

    async def run(self, model: str, work: Any) -> Any:
        return work(self.translator)

    @asynccontextmanager
    async def lent(self, model: str, source_language: str | None = None) -> AsyncGenerator[Lent, None]:
        yield Lent(self.translator, lambda do: do())

    async def longest(self, model: str) -> float:
        return 60.0

    def is_loaded(self, model: str) -> bool:
        return False

    async def close(self, drain: bool = True) -> None:
        pass


class FakeLibrary:
    """Two stores of the model "mini"."""

    def cards(self, model: str | None = None) -> list[StoreCard]:
        cards = [StoreCard(name, "mini", 100, ["text"], False, {}) for name in ("koran", "parliament")]
        return [card for card in cards if model in (None, card.model)]

    def held(self, translator: Any, model: str, names: Any) -> Any:
        raise NotImplementedError


def wav(seconds: float = 1.0, seed: int = 0) -> bytes:
    """Faint noise as a file."""
    samples = np.random.default_rng(seed).normal(size=round(seconds * 16_000)) * 0.01
    file = io.BytesIO()
    soundfile.write(file, samples.astype(np.float32), 16_000, format="WAV", subtype="PCM_16")
    return file.getvalue()


@contextmanager
def listening(app: Any, **options: Any) -> Iterator[str]:
    """The address of a server in a thread of its own, on a free port of loopback."""
    running = server(app, "127.0.0.1", 0, **options)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        if not thread.is_alive():
            raise RuntimeError("the server did not start")
        threading.Event().wait(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


def left(folder: Path) -> list[str]:
    """Files of uploads that are there."""
    return [path.name for path in (folder / "uploads").iterdir()]
