"""Clients that are slow, silent, many, broken off or send rubbish: always an answer, and nothing that stays."""

import asyncio
import io
import resource
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest
import serving_fakes
import soundfile
from served import PATIENCE, Served, served
from serving_fakes import listening

from npda.demo.model import SHIPPED
from npda.serving.app import create_app
from npda.serving.listening import PatientProtocol
from npda.serving.requests import receiving
from npda.serving.settings import Settings

WHERE = "/v1/audio/translations"
MEGABYTE = 1 << 20
GROWTH = 200 * MEGABYTE  # that a server's memory may have grown by; some of it is the allocator's


def form(file: bytes, name: str = "talk.wav") -> tuple[bytes, str]:
    """The body of a request, and its content type."""
    request = httpx.Request("POST", "http://localhost", files={"file": (name, file)}, data={"model": "mini"})
    return request.read(), request.headers["content-type"]


def head(body: bytes, kind: str, host: str = "localhost") -> bytes:
    return (
        f"POST {WHERE} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(round(PATIENCE / 0.02)):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it never happened")


ENOUGH = 2.0  # seconds to ask in, on a busy machine too


class Hasty(PatientProtocol):
    head = 0.3


@pytest.fixture
def quick(tmp_path, monkeypatch) -> Iterator[tuple[str, int]]:
    """A server that is not as patient as usual, neither with heads nor with bodies."""
    monkeypatch.setattr(receiving, "_PAUSE", 0.3)
    app = create_app(
        Settings({"mini": tmp_path}, tmp_path / "data"), serving_fakes.FakeEngine(), serving_fakes.FakeLibrary()
    )
    with listening(app, protocol=Hasty) as url:
        yield url, int(url.rpartition(":")[2])


def connect(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), PATIENCE)
    made.sendall(sent)
    return made


def everything(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    found = b""
    try:
        while piece := connection.recv(1 << 16):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /v1/audio/tr", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "],
    ids=["silent", "half a line", "half a head"],
)
def test_connections_without_a_request_are_closed(quick, sent):
    with connect(quick[1], sent) as one:
        assert everything(one) == b""


def test_a_connection_that_is_kept_is_closed_after_its_answer(quick, monkeypatch):
    monkeypatch.setattr(Hasty, "head", ENOUGH)
    with connect(quick[1], b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as one:
        assert everything(one).startswith(b"HTTP/1.1 200 OK")


def test_an_upload_that_stops_is_refused(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(Hasty, "head", ENOUGH)
    body, kind = form(serving_fakes.wav(1))
    with connect(quick[1], head(body, kind) + body[:1000]) as one:
        answer = everything(one)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"came too slowly" in answer
    assert serving_fakes.left(tmp_path / "data") == []


def test_an_upload_that_dribbles_is_refused(quick, monkeypatch):
    """A byte now and then does not keep a place for ever."""
    monkeypatch.setattr(Hasty, "head", ENOUGH)
    monkeypatch.setattr(receiving, "_PAUSE", PATIENCE)
    monkeypatch.setattr(receiving, "_GRACE", 1.0)
    body, kind = form(serving_fakes.wav(1))
    with connect(quick[1], head(body, kind)) as one:
        gone = threading.Event()

        def dribble() -> None:
            for place in range(len(body)):
                try:
                    one.sendall(body[place : place + 1])
                except OSError:
                    return
                if gone.wait(0.05):
                    return

        thread = threading.Thread(target=dribble)
        thread.start()
        answer = everything(one)
        gone.set()
        thread.join(PATIENCE)
    assert answer.startswith(b"HTTP/1.1 408 ")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Served]:
    """A process of its own, whose memory can be looked at. What reaches its model here is little."""
    with served(
        tmp_path_factory.mktemp("served"), "--model", f"mini={SHIPPED}", "--max-seconds", 20, "--max-upload", 2
    ) as one:
        wav = serving_fakes.wav(1)
        assert httpx.post(one.url + WHERE, files={"file": wav}, data={"model": "mini"}, timeout=PATIENCE).is_success
        yield one


def uploads(server: Served) -> list[str]:
    return serving_fakes.left(server.log.parent / "data")


def sound(kind: str, subtype: str | None = None, seconds: float = 1.0) -> bytes:
    """Faint noise, in a container."""
    samples = np.random.default_rng(0).normal(size=round(seconds * 16_000)) * 0.01
    file = io.BytesIO()
    soundfile.write(file, samples.astype(np.float32), 16_000, format=kind, subtype=subtype)
    return file.getvalue()


def spoilt(count: int) -> Iterator[bytes]:
    """Files that were recordings: bytes changed, cut off, put in, or nothing but chance."""
    random = np.random.default_rng(0)
    whole = [sound("WAV", "PCM_16"), sound("FLAC"), sound("OGG", "VORBIS"), sound("MP3"), sound("AIFF")]
    for turn in range(count):
        data = bytearray(whole[turn % len(whole)])
        match turn // len(whole) % 4:
            case 0:  # what heads promise is no longer true
                for place in random.integers(0, min(200, len(data)), size=8):
                    data[place] = random.integers(256)
            case 1:
                del data[random.integers(len(data)) :]
            case 2:
                place = random.integers(len(data))
                data[place:place] = random.bytes(int(random.integers(1, 5_000)))
            case _:
                data[:] = data[:4] + random.bytes(3_000)
        yield bytes(data)


def test_spoilt_recordings_get_an_answer(server):
    before, found = server.memory(), Counter()
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        for data in spoilt(60):
            answer = client.post(WHERE, files={"file": ("talk", data)}, data={"model": "mini"})
            found[answer.status_code] += 1
            if not answer.is_success:
                assert answer.json()["error"]["message"].endswith(".")
    assert set(found) <= {200, 413, 415, 422}
    assert found[415] > 5
    assert uploads(server) == []
    assert server.memory() < before + GROWTH


def test_a_small_file_that_becomes_long_audio_is_refused(server):
    """Six minutes of silence are a few kilobytes of FLAC; a wav file may promise four gigabytes."""
    before = server.memory()
    file = io.BytesIO()
    soundfile.write(file, np.zeros(360 * 16_000, np.float32), 16_000, format="FLAC")
    promising = bytearray(sound("WAV", "PCM_16"))
    promising[40:44] = (0xFFFFFFF0).to_bytes(4, "little")
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        for data, statuses in ((file.getvalue(), {413}), (bytes(promising), {200, 413, 415, 422})):
            answer = client.post(WHERE, files={"file": ("talk", data)}, data={"model": "mini"})
            assert answer.status_code in statuses
    assert server.memory() < before + GROWTH


def test_spoilt_forms_get_an_answer(server):
    body, kind = form(sound("FLAC", seconds=0.5))
    random, found = np.random.default_rng(0), Counter()
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        for turn in range(60):
            data = bytearray(body)
            if turn % 2:
                for place in random.integers(0, 300, size=3):
                    data[place] = random.integers(256)
            else:
                del data[random.integers(len(data)) :]
            answer = client.post(WHERE, content=bytes(data), headers={"Content-Type": kind})
            found[answer.status_code] += 1
            assert answer.is_success or answer.json()["error"]["message"].endswith(".")
    assert set(found) <= {200, 400, 404, 413, 415, 422}
    assert found[400] > 20
    assert uploads(server) == []


def test_uploads_that_are_broken_off_leave_nothing(server):
    body, kind = form(serving_fakes.wav(15))
    port = int(server.url.rpartition(":")[2])
    for share in np.linspace(0.1, 1.0, 40):
        connect(port, head(body, kind) + body[: round(share * len(body))]).close()
    until(lambda: uploads(server) == [])
    assert httpx.get(f"{server.url}/readyz", timeout=PATIENCE).json()["status"] == "ready"


CONNECTIONS = 1_000


def test_a_thousand_connections_at_once(server):
    """Silent ones, half requests and half uploads beside those that ask properly, who all get their answer."""
    port = int(server.url.rpartition(":")[2])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    body, kind = form(serving_fakes.wav(1))
    asking = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    sending = (b"", asking[:20], head(body, kind) + body[:500], asking)  # by turns
    before = server.memory()

    async def one(place: int) -> bytes:
        sent = sending[place % len(sending)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            await writer.drain()
            connected.add(place)
            if sent == asking:
                return await reader.read()
            await enough.wait()
            return b""
        finally:
            writer.transport.abort()

    async def all_of_them() -> list[bytes]:
        asked = asyncio.gather(*(one(place) for place in range(CONNECTIONS)))
        while len(connected) < CONNECTIONS:
            await asyncio.sleep(0.02)
        held.append(server.memory())
        enough.set()
        return await asyncio.wait_for(asked, PATIENCE)

    connected: set[int] = set()
    held: list[int] = []
    enough = asyncio.Event()
    try:
        answers = asyncio.run(all_of_them())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(answer.startswith(b"HTTP/1.1 200 OK") for answer in answers[3 :: len(sending)])
    assert held[0] < before + GROWTH
    until(lambda: uploads(server) == [])
    assert httpx.get(f"{server.url}/readyz", timeout=PATIENCE).json()["status"] == "ready"
    assert "Traceback" not in server.log.read_text()
