"""SIGTERM to a busy server whose stores are being replaced: what it has taken is answered, and it ends well."""

import asyncio
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import mini_stores
import pytest
from served import PATIENCE, Served, served

from npda import audio
from npda.corpus.mini.grammar import sentences
from npda.demo.model import SHIPPED
from npda.serving.database import Database
from npda.serving.engine.asks import Way
from npda.serving.engine.engine import BatchingEngine
from npda.serving.settings import Settings
from npda.serving.stores.library import StoreLibrary
from npda.translator import Translator

CLIP = Path(__file__).parents[1] / "fixtures" / "version-0.1.0" / "clips" / "parliament-test-00002.flac"
FIELDS = {"model": "mini", "stores": "parliament"}
CLIENTS, MOST = 6, 200  # threads, and requests of each
WHERE = "/v1/audio/translations"


@pytest.fixture(scope="module")
def versions(tmp_path_factory) -> dict[str, Path]:
    """Two stores that make different sentences of the clip."""
    folder = tmp_path_factory.mktemp("versions")
    translator = Translator.from_pretrained(SHIPPED)
    texts = {"first": mini_stores.parliament(), "second": sentences("general", "train", "de", 0)[:100]}
    for name, pairs in texts.items():
        mini_stores.store(translator, folder / name, pairs)
    return {name: folder / name for name in texts}


def publish(stores: Path, version: Path) -> None:
    (stores / ".new").unlink(missing_ok=True)
    (stores / ".new").symlink_to(version)
    os.replace(stores / ".new", stores / "parliament")


def ask(client: httpx.Client) -> httpx.Response:
    return client.post(WHERE, files={"file": ("clip.flac", CLIP.read_bytes())}, data=FIELDS)


class Unfinished:
    """A request of which the server does not have all yet."""

    def __init__(self, url: str) -> None:
        self.go_on, self.answer = threading.Event(), None
        request = httpx.Request("POST", url + WHERE, files={"file": ("clip.flac", CLIP.read_bytes())}, data=FIELDS)
        self._body, self._kind = request.read(), request.headers["content-type"]
        self._url = request.url
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        def pieces() -> Iterator[bytes]:
            rest = memoryview(self._body)
            yield bytes(rest[:1000])
            rest = rest[1000:]
            while not self.go_on.wait(0.2):  # the server gives up those who send nothing
                yield bytes(rest[:1])
                rest = rest[1:]
            yield bytes(rest)

        headers = {"content-type": self._kind, "content-length": str(len(self._body))}
        self.answer = httpx.post(self._url, content=pieces(), headers=headers, timeout=PATIENCE)

    def finish(self) -> httpx.Response:
        self.go_on.set()
        self._thread.join(PATIENCE)
        assert self.answer is not None
        return self.answer


class Busy:
    """Clients that ask again and again until they are stopped, or the server is gone."""

    def __init__(self, server: Served) -> None:
        self.answers: list[httpx.Response] = []
        self.faults: Counter[str] = Counter()
        self.stop = threading.Event()
        self._url = server.url
        self.threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=PATIENCE) as client:
            for _ in range(MOST):
                if self.stop.is_set():
                    return
                try:
                    self.answers.append(ask(client))
                except httpx.TransportError as error:
                    self.faults[type(error).__name__] += 1
                    return

    def join(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)


def until(condition) -> None:
    for _ in range(round(PATIENCE / 0.05)):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it never happened")


def in_flight(url: str) -> int:
    line = next(
        line for line in httpx.get(f"{url}/metrics").text.splitlines() if line.startswith("npda_requests_in_flight")
    )
    return int(float(line.split()[1])) - 1  # without the one that asks


def test_nothing_that_was_accepted_is_lost(tmp_path, versions):
    stores = tmp_path / "stores"
    stores.mkdir()
    texts = {}
    publish(stores, versions["first"])
    with served(tmp_path, "--model", f"mini={SHIPPED}", "--stores", stores) as server:
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            for name, version in versions.items():
                publish(stores, version)
                texts[name] = ask(client).json()["text"]
        assert texts["first"] != texts["second"]

        busy = Busy(server)
        for turn in range(20):
            publish(stores, list(versions.values())[turn % 2])
            answered = len(busy.answers)
            until(lambda before=answered: len(busy.answers) > before)
        accepted = [Unfinished(server.url) for _ in range(4)]
        until(lambda: in_flight(server.url) >= CLIENTS + len(accepted))
        server.process.send_signal(signal.SIGTERM)
        publish(stores, versions["first"])
        for one in accepted:
            answer = one.finish()
            assert answer.status_code == 200, answer.text
        assert server.process.wait(PATIENCE) == 0
        busy.stop.set()
        busy.join()

        # What the clients know and what the server knows agree: every request that it took was answered.
        answers = [*busy.answers, *(one.answer for one in accepted)]
        assert {answer.status_code for answer in answers if answer} == {200}
        assert {answer.json()["text"] for answer in answers if answer} == set(texts.values())
        taken = [line for line in server.logged() if line["message"] == "request" and line["route"] == WHERE]
        assert Counter(line["status"] for line in taken) == {200: len(answers) + len(texts)}
        assert sum(busy.faults.values()) == CLIENTS  # no client was left waiting
        assert "Traceback" not in server.log.read_text()


def test_versions_of_the_server_s_own_are_replaced_under_load(tmp_path, versions):
    """Requests end with the version that they began with, and what nobody reads is removed from the disk."""
    settings = Settings({"mini": SHIPPED}, tmp_path, device="cpu")
    library = StoreLibrary(settings, Database(settings.data))
    wave, way = audio.load(str(CLIP)), Way("mini", stores=("parliament",))
    seen: list[str] = []

    def replace(number: int) -> None:
        folder = library.versions / str(number) / "parliament"
        shutil.copytree(versions["second" if number % 2 else "first"], folder)
        library.publish("parliament", folder)

    async def ask(engine: BatchingEngine, done: asyncio.Event) -> None:
        while not done.is_set():
            seen.append((await engine.utterance(wave, way)).text)

    async def work() -> None:
        engine, done = BatchingEngine(settings, library, threads=1), asyncio.Event()
        asking = [asyncio.create_task(ask(engine, done)) for _ in range(CLIENTS)]
        for number in range(1, 21):
            await asyncio.to_thread(replace, number)
            before = len(seen)
            while len(seen) < before + CLIENTS:  # somebody begins with every version
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in asking)
        done.set()
        await asyncio.gather(*asking)
        await engine.close()

    replace(0)
    asyncio.run(asyncio.wait_for(work(), PATIENCE))
    assert len(set(seen)) == 2
    until(lambda: [folder.name for folder in library.versions.iterdir()] == ["20"])
