"""A live connection without a network: what is sent and closed, whoever ends it and however."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numbers_spoken import Reader, Scripted, decode, speech
from starlette.websockets import WebSocketDisconnect

from npda.serving.captions.conversation import Conversation, Conversations, Limits, Wrong, read_event
from npda.serving.captions.live import Captions
from npda.serving.errors import Refusal

SENTENCES = speech((0, 10), (1, 20), (2, 20), (3, 20), (4, 20), (0, 30), (5, 20), (6, 20), (0, 40))
END = json.dumps({"type": "end"})


def frames(samples: np.ndarray, size: int = 1600) -> list[bytes]:
    data = (samples * 32_768).astype("<i2")
    return [data[place : place + size].tobytes() for place in range(0, len(data), size)]


class Pipe:
    """A socket with a client at its other end. stalled: the client accepts nothing more"""

    def __init__(self, *messages: bytes | str) -> None:
        self.coming: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self.told: list[dict[str, Any]] = []
        self.code: int | None = None
        self.gone = self.stalled = False
        self.send(*messages)

    def send(self, *messages: bytes | str) -> None:
        for message in messages:
            kind = "text" if isinstance(message, str) else "bytes"
            self.coming.put_nowait({"type": "websocket.receive", kind: message})

    def vanish(self) -> None:
        self.coming.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def receive(self) -> Mapping[str, Any]:
        return await self.coming.get()

    async def send_text(self, data: str) -> None:
        if self.gone:
            raise WebSocketDisconnect(1006)
        while self.stalled:
            await asyncio.sleep(60)
        assert self.code is None
        self.told.append(json.loads(data))

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        self.code = code

    def types(self) -> list[str]:
        return [event["type"] for event in self.told]

    def texts(self) -> list[str]:
        return [event["text"] for event in self.told if event["type"] == "final"]


class Gated(Reader):
    """Waits in every pass until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()
        self.began = asyncio.Event()
        self.cancelled = False

    async def __call__(self, samples, begins):
        self.began.set()
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return await super().__call__(samples, begins)


def conversation(pipe: Pipe, reader, rate: int = 16_000, limits: Limits = Limits(), **more) -> Conversation:
    async def open(wishes: Mapping[str, Any]):
        if "model" in wishes:
            raise Refusal(404, "There is no such model.")
        return Captions(reader, decode, Scripted(), sleep=reader.sleep, clock=reader.clock), wishes.get("rate", rate)

    return Conversation(pipe, open, limits, **more)


def talk(pipe: Pipe, reader, **more) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            await conversation(pipe, reader, **more).run()

    asyncio.run(run())


def test_a_whole_conversation():
    pipe = Pipe(*frames(SENTENCES), END)
    talk(pipe, Reader())
    assert pipe.types()[0] == "ready"
    assert pipe.types()[-1] == "done"
    assert pipe.told[-1] == {"type": "done", "reason": "end"}
    assert "partial" in pipe.types()
    assert pipe.texts() == ["w1 w2 w3 w4", "w5 w6"]
    assert pipe.code == 1000


def test_what_is_being_said_at_the_end_becomes_final():
    pipe = Pipe(*frames(SENTENCES[: 51 * 512]), END)
    talk(pipe, Reader(wrong=0))
    assert pipe.texts() == ["w1 w2 w3"]
    assert pipe.types()[-1] == "done"


def test_only_an_end_is_a_conversation_too():
    pipe = Pipe(END)
    talk(pipe, Reader())
    assert pipe.types() == ["ready", "done"]


@pytest.mark.parametrize(
    ("message", "code", "sentence"),
    [
        (b"123", 1003, "16-bit"),
        (b"12" * 200_000, 1008, "bytes at most"),
        ("hello", 1003, "JSON"),
        ("[" * 100_000, 1003, "JSON"),
        ("[1]", 1003, '{"type": "end"}'),
        (json.dumps({"type": "begin"}), 1003, '{"type": "end"}'),
        (json.dumps({"type": ["end"]}), 1003, '{"type": "end"}'),
        ("x" * 300_000, 1008, "characters at most"),
        (json.dumps({"type": "configure", "model": "none"}), 1008, "no such model"),
    ],
)
def test_what_is_wrong_is_said_and_ends_it(message: bytes | str, code: int, sentence: str):
    pipe = Pipe(message)
    talk(pipe, Reader())
    assert pipe.types() == ["ready", "error"]
    assert sentence in pipe.told[-1]["message"]
    assert pipe.code == code


def test_configuring_comes_first():
    pipe = Pipe(json.dumps({"type": "configure", "rate": 8000}), END)
    talk(pipe, Reader())
    assert [event.get("sample_rate") for event in pipe.told] == [16_000, 8000, None]
    late = Pipe(*frames(SENTENCES[:1600]), json.dumps({"type": "configure"}))
    talk(late, Reader())
    assert late.code == 1008
    assert "before the first audio" in late.told[-1]["message"]


def test_events_are_read_by_their_type():
    assert read_event(END, 100)["type"] == "end"
    with pytest.raises(Wrong):
        read_event("{}", 100)


@pytest.mark.parametrize("during_the_end", [False, True])
def test_a_client_that_vanishes_takes_its_pass_with_it(during_the_end: bool):
    async def run() -> tuple[Gated, Pipe]:
        reader, pipe = Gated(), Pipe(*frames(SENTENCES), *([END] if during_the_end else []))
        running = asyncio.create_task(conversation(pipe, reader).run())
        await reader.began.wait()
        pipe.vanish()
        async with asyncio.timeout(60):
            await running
        assert len(asyncio.all_tasks()) == 1
        return reader, pipe

    reader, pipe = asyncio.run(run())
    assert reader.cancelled
    assert pipe.types() == ["ready"]
    assert pipe.code is None


def test_a_client_that_takes_no_events_is_left():
    async def run() -> Pipe:
        pipe, reader = Pipe(*frames(SENTENCES)), Gated()
        running = asyncio.create_task(conversation(pipe, reader, limits=Limits(patience=0.01)).run())
        await reader.began.wait()
        pipe.stalled = True
        reader.may.set()
        async with asyncio.timeout(60):
            await running
        return pipe

    assert asyncio.run(run()).types() == ["ready"]
    gone = Pipe(*frames(SENTENCES), END)
    gone.gone = True
    talk(gone, Reader())
    assert gone.told == []


def test_a_client_that_is_too_far_ahead_is_told_and_waits():
    """Sixteen sentences come at once; reading stops until enough of them are translated. None is lost."""

    async def run() -> tuple[Pipe, int]:
        reader, pipe = Gated(), Pipe(*frames(np.tile(SENTENCES, 8)), END)
        running = asyncio.create_task(conversation(pipe, reader, limits=Limits(buffer=6.0, burst=1e9)).run())
        async with asyncio.timeout(60):
            while "overload" not in pipe.types():
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            unread = pipe.coming.qsize()
            reader.may.set()
            await running
        return pipe, unread

    pipe, unread = asyncio.run(run())
    assert unread > 100
    assert pipe.texts() == ["w1 w2 w3 w4", "w5 w6"] * 8
    (first, *_) = [event for event in pipe.told if event["type"] == "overload"]
    assert first["dropped_seconds"] == 0
    assert first["waiting_seconds"] > 6
    assert pipe.types()[-1] == "done"


def test_audio_that_comes_too_fast_is_slowed_down():
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    pipe = Pipe(*frames(np.zeros(16_000 * 10, np.float32)), END)
    talk(pipe, Reader(), limits=Limits(rate=4.0, burst=5.0), clock=lambda: 0.0, sleep=sleep)
    assert 0 < waited[0] <= 0.1
    assert waited[-1] == pytest.approx((10 - 5) / 4, rel=0.15)  # no time passed
    waited.clear()
    small = Pipe(*[b"\0\0"] * 200, END)
    talk(small, Reader(), limits=Limits(rate=1.0, burst=0.5), clock=lambda: 0.0, sleep=sleep)
    assert len(waited) > 50


def test_silence_on_the_line_ends_it():
    pipe = Pipe(*frames(SENTENCES[: 95 * 512]))
    talk(pipe, Reader(), limits=Limits(idle=0.05))
    assert pipe.texts() == ["w1 w2 w3 w4"]
    assert "no audio" in pipe.told[-1]["reason"]
    assert pipe.code == 1000


def test_a_connection_takes_so_many_seconds():
    pipe = Pipe(*frames(SENTENCES))
    talk(pipe, Reader(wrong=0), limits=Limits(seconds=2.0))
    assert pipe.texts() == ["w1 w2 w3"]
    assert "open another" in pipe.told[-1]["message"]
    assert pipe.code == 1008


@pytest.mark.parametrize(("status", "code"), [(404, 1008), (422, 1008), (500, 1011)])
def test_a_refusal_is_told(status: int, code: int):
    pipe = Pipe(*frames(SENTENCES), END)
    talk(pipe, Reader(refused={1: status}))
    assert pipe.told[-1] == {"type": "error", "message": "Too much to do."}
    assert pipe.code == code


def test_a_machine_that_stays_too_busy_says_try_later():
    pipe = Pipe(*frames(SENTENCES), END)
    talk(pipe, Reader(refused=dict.fromkeys(range(1, 1000), 503)))
    assert pipe.told[-1]["type"] == "error"
    assert pipe.code == 1013


def test_a_fault_is_told_without_its_details():
    async def broken(samples, begins):
        raise ZeroDivisionError("secret")

    pipe, reader = Pipe(*frames(SENTENCES), END), Reader()

    async def run() -> None:
        async def open(wishes):
            return Captions(broken, decode, Scripted(), clock=reader.clock), 16_000

        await Conversation(pipe, open).run()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert pipe.types()[-1] == "error"
    assert "secret" not in pipe.told[-1]["message"]
    assert pipe.code == 1011


def test_partial_texts_wait_while_the_machine_is_busy():
    pipe = Pipe(*frames(SENTENCES), END)
    talk(pipe, Reader(), busy=lambda: True)
    assert pipe.types() == ["ready", "final", "final", "done"]


@pytest.mark.parametrize("rate", [8000, 44_100, 48_000])
def test_other_rates_are_resampled(rate: int):
    class Counting(Captions):
        pass

    made: list[Captions] = []

    async def run() -> None:
        async def open(wishes):
            made.append(Counting(Reader(), decode, Scripted()))
            return made[-1], rate

        await Conversation(Pipe(*frames(np.zeros(3 * rate, np.float32), 1000), END), open).run()

    asyncio.run(run())
    assert made[0].seconds == pytest.approx(3.0, abs=0.01)


def test_a_server_that_stops_lets_everybody_finish():
    async def run() -> list[Pipe]:
        all_of_them, pipes = Conversations(), [Pipe(*frames(SENTENCES[: 95 * 512])) for _ in range(3)]

        async def one(pipe: Pipe) -> None:
            talking = conversation(pipe, Reader())
            with all_of_them.running(talking):
                await talking.run()

        running = [asyncio.create_task(one(pipe)) for pipe in pipes]
        async with asyncio.timeout(60):
            while any(pipe.coming.qsize() for pipe in pipes) or len(all_of_them) < 3:
                await asyncio.sleep(0)
            for _ in range(10):
                await asyncio.sleep(0)
            with pytest.raises(Refusal, match="3 live connections"):
                all_of_them.check(3)
            all_of_them.check(4)
            await all_of_them.drain()
            with pytest.raises(Refusal, match="stopping"):
                all_of_them.check(4)
            await asyncio.gather(*running)
        assert len(all_of_them) == 0
        return pipes

    for pipe in asyncio.run(run()):
        assert pipe.texts() == ["w1 w2 w3 w4"]
        assert pipe.told[-1]["type"] == "done"
        assert pipe.code == 1001
