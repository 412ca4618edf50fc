"""Live captions over a real WebSocket, with the shipped model."""

import asyncio
import json
import re
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import soundfile
from serving_fakes import PATIENCE, FakeEngine, FakeLibrary, listening
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from npda import audio
from npda.demo.model import SHIPPED
from npda.segmentation import Cutter, best_detector
from npda.serving.app import create_app
from npda.serving.captions.agreement import words
from npda.serving.listening import server
from npda.serving.settings import Key, Settings
from npda.translator import Translator

ROOT = Path(__file__).parents[2]
CLIPS = sorted((ROOT / "tests" / "fixtures" / "version-0.1.0" / "clips").glob("*.flac"))
SECRET = "s e/cret%41"  # which cannot stand in a subprotocol as it is


@pytest.fixture(scope="module")
def talk() -> np.ndarray:
    """Clips with a second of silence after each, [n] int16 at 16 kHz."""
    pieces = [piece for clip in CLIPS[:3] for piece in (audio.load(str(clip)), np.zeros(16_000, np.float32))]
    return np.rint(np.concatenate(pieces) * 32_767).astype("<i2")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a server with the shipped model, which takes two live connections."""
    data = tmp_path_factory.mktemp("data")
    with listening(create_app(Settings({"mini": SHIPPED}, data, live=2))) as url:
        yield url.replace("http", "ws") + "/v1/audio/live"


@pytest.fixture
def guarded(tmp_path):
    """A server with a key and without a model."""
    settings = Settings({"mini": tmp_path / "none"}, tmp_path / "data", keys=(Key("me", SECRET),))
    with listening(create_app(settings, FakeEngine(), FakeLibrary())) as url:
        yield url


async def events_of(socket) -> list[dict]:
    events = []
    with suppress(ConnectionClosedError):  # with another code than 1000 or 1001
        async for message in socket:
            events.append(json.loads(message))
    return events


async def say(url: str, samples: np.ndarray, size: int = 1600, **options) -> tuple[list[dict], int]:
    """Everything that is told when samples are sent as fast as the server takes them, and the close code."""
    async with asyncio.timeout(PATIENCE), connect(url, **options) as socket:
        listening = asyncio.create_task(events_of(socket))
        with suppress(ConnectionClosedError):
            for place in range(0, len(samples), size):
                await socket.send(samples[place : place + size].tobytes())
            await socket.send(json.dumps({"type": "end"}))
        events = await listening
        return events, socket.close_code or 0


def check(events: list[dict]) -> None:
    """Stable text stays, segments follow each other, times rise."""
    stable, number, last = "", 0, 0.0
    for event in events:
        if event["type"] == "partial":
            assert event["segment"] == number
            assert event["stable"].startswith(stable)
            stable = event["stable"]
        elif event["type"] == "final":
            assert event["segment"] == number
            assert event["text"].startswith(stable)
            assert last <= event["start"] < event["end"]
            stable, number, last = "", number + 1, event["end"]


def test_speech_becomes_text_as_the_model_translates_it(address, talk):
    events, code = asyncio.run(say(address, talk))
    assert events[0] == {"type": "ready", "sample_rate": 16_000}
    assert events[-1] == {"type": "done", "reason": "end"}
    assert code == 1000
    check(events)
    finals = [event for event in events if event["type"] == "final"]
    assert len(finals) == 3
    assert all(re.fullmatch(rf"req_\w+_{final['segment']}", final["request_id"]) for final in finals)
    # Each is what the model makes of the stretch between two pauses, as far as it begins with what was stable.
    translator, cutter = Translator.from_pretrained(SHIPPED), Cutter(best_detector())
    heard = talk.astype(np.float32) / 32_768
    cut = [stretch for place in range(0, len(heard), 1600) for stretch in cutter.hear(heard[place : place + 1600])]
    assert [(final["start"], final["end"]) for final in finals] == [(round(s.start, 3), round(s.end, 3)) for s in cut]
    for final, stretch in zip(finals, cut, strict=True):
        stable = [
            "",
            *(event["stable"] for event in events if event.get("segment") == final["segment"] and "stable" in event),
        ]
        alone = str(translator.translate(stretch.samples))
        assert final["text"]
        if words(alone)[: len(words(stable[-1]))] == words(stable[-1]):
            assert final["text"] == alone


def test_another_rate_says_the_same(address, talk):
    import soxr

    twice = np.rint(soxr.resample(talk.astype(np.float32), 16_000, 48_000)).clip(-32_768, 32_767).astype("<i2")
    events, code = asyncio.run(say(f"{address}?sample_rate=48000", twice, 4800))
    check(events)
    assert code == 1000
    assert len([event for event in events if event["type"] == "final"]) == 3


def test_silence_gives_nothing(address):
    events, code = asyncio.run(say(address, np.zeros(80_000, "<i2")))
    assert [event["type"] for event in events] == ["ready", "done"]
    assert code == 1000


def test_connections_are_counted(address):
    async def run() -> None:
        async with asyncio.timeout(PATIENCE), connect(address) as one, connect(address) as two:
            for socket in (one, two):
                assert json.loads(await socket.recv())["type"] == "ready"
            with pytest.raises(InvalidStatus) as refused:
                await connect(address)
            assert refused.value.response.status_code == 503
            assert b"2 live connections" in refused.value.response.body
            one.transport.abort()
            await two.send(json.dumps({"type": "end"}))
            assert (await events_of(two))[-1]["type"] == "done"
            for _ in range(1000):  # until the server has noticed
                try:
                    async with connect(address) as third:
                        await third.recv()
                    return
                except InvalidStatus:
                    await asyncio.sleep(0.05)
        pytest.fail("a vanished connection still counts")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("model=none", "no model"),
        ("stores=none-such", "no store"),
        ("sample_rate=7", "sample_rate"),
        ("sample_rate=x", "sample_rate"),
        ("response_format=srt", "response_format"),
        ("terms=[", "terms"),
        ("k=nan", "k is a number"),
        ("language=Klingon", "Klingon"),
    ],
)
def test_wrong_parameters_are_told_in_a_sentence(address, query: str, sentence: str):
    events, code = asyncio.run(say(f"{address}?{query}", np.zeros(0, "<i2")))
    assert [event["type"] for event in events] == ["error"]
    assert sentence in events[0]["message"]
    assert code == 1008


def test_keys_come_by_header_or_by_subprotocol(guarded):
    url = guarded.replace("http", "ws") + "/v1/audio/live"

    async def status(**options) -> int:
        try:
            async with connect(url, **options):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    async def run() -> list[int]:
        return [
            await status(),
            await status(additional_headers={"Authorization": "Bearer wrong"}),
            await status(subprotocols=["npda.key.wrong"]),
            await status(additional_headers={"Authorization": f"Bearer {SECRET}"}),
            await status(subprotocols=[f"npda.key.{quote(SECRET, safe='')}"]),
            await status(additional_headers={"Authorization": f"Bearer {SECRET}"}, origin="https://elsewhere.example"),
            await status(additional_headers={"Authorization": f"Bearer {SECRET}"}, origin=guarded),
        ]

    *denied, by_header, by_protocol, foreign, own = asyncio.run(run())
    assert denied == [401] * 3
    assert (by_header, by_protocol, own) == (101, 101, 101)
    assert foreign == 403


def test_a_server_that_stops_lets_captions_finish(tmp_path, talk):
    """What was said until then becomes final, though nobody has said that it ends."""
    running = server(create_app(Settings({"mini": SHIPPED}, tmp_path)), "127.0.0.1", 0)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()

    async def run() -> tuple[list[dict], int]:
        while not running.started:
            await asyncio.sleep(0.01)
        port = running.servers[0].sockets[0].getsockname()[1]
        async with asyncio.timeout(PATIENCE), connect(f"ws://127.0.0.1:{port}/v1/audio/live") as socket:
            events = [json.loads(await socket.recv())]
            length = len(audio.load(str(CLIPS[0])))
            for place in range(0, length, 1600):
                await socket.send(talk[place : min(place + 1600, length)].tobytes())
            while events[-1]["type"] != "partial":
                events.append(json.loads(await socket.recv()))
            running.should_exit = True
            return events + await events_of(socket), socket.close_code or 0

    events, code = asyncio.run(run())
    thread.join(PATIENCE)
    assert not thread.is_alive()
    check(events)
    assert events[-2]["type"] == "final"
    assert events[-1] == {"type": "done", "reason": "the server is stopping"}
    assert code == 1001


def test_the_python_of_the_docs_runs(address, talk, tmp_path, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "live.md").read_text(encoding="utf-8"), re.DOTALL)
    soundfile.write(tmp_path / "speech.wav", talk[:24_000], 16_000)
    program = program.replace('"speech.wav"', f"{str(tmp_path / 'speech.wav')!r}, {address!r}").replace("(0.1)", "(0)")
    exec(compile(program, "docs/live.md", "exec"), {})
    assert re.search(r"\d\.\d–\d\.\d s: \w+", capsys.readouterr().out)
