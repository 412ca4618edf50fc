"""`npda serve --ray`: people who translate do not notice that a store is replaced, or that machines die."""

from __future__ import annotations

import os
import signal
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import mini_stores
import pytest
from fastapi.testclient import TestClient
from openai import OpenAI
from served import PATIENCE, Served, served

from npda.corpus.mini.grammar import sentences
from npda.demo.model import SHIPPED
from npda.io.errors import InputError
from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.translator import Translator

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'npda[cluster]'")

from npda.cluster.connection import connected  # noqa: E402
from npda.cluster.search import SearchOnCluster  # noqa: E402
from npda.serving.on_cluster import OnCluster, serve_on  # noqa: E402

CLIP = Path(__file__).parents[1] / "fixtures" / "version-0.1.0" / "clips" / "parliament-test-00002.flac"
REQUESTS, CLIENTS = 200, 4
RETRIES = 12  # of OpenAI's client, which waits longer before each


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
    (stores / ".new").symlink_to(version)
    os.replace(stores / ".new", stores / "parliament")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def alone(stores: Path, folder: Path) -> str:
    """What a server on one machine says."""
    settings = Settings({"mini": SHIPPED}, folder, stores)
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        fields = {"model": "mini", "stores": "parliament"}
        return client.post("/v1/audio/translations", files={"file": CLIP.read_bytes()}, data=fields).json()["text"]


class People:
    """Some who translate the same clip again and again, with OpenAI's client, which tries again by itself."""

    def __init__(self, url: str) -> None:
        self.client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=RETRIES, timeout=PATIENCE)
        self.begun, self.texts, self.faults = 0, [], []
        self.seconds: list[tuple[float, float, int]] = []  # when it ended, how long it took, retries
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._work) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self.begun == REQUESTS:
                    return
                self.begun += 1
            started = time.monotonic()
            try:
                asked = self.client.audio.translations.with_raw_response
                answer = asked.create(model="mini", file=CLIP, extra_body={"stores": "parliament"})
            except Exception as error:
                self.faults.append(error)
                return
            ended = time.monotonic()
            self.seconds.append((ended, ended - started, answer.retries_taken))
            self.texts.append(answer.parse().text)

    def answered(self, share: float) -> None:
        """Wait until so much of all is answered."""
        while len(self.texts) < share * REQUESTS:
            assert self.faults == []
            time.sleep(0.02)


def actors() -> dict[str, str]:
    """Names of those that live, and the machine of each."""
    from ray._private.state import actors as every

    return {each["Name"]: each["Address"]["NodeID"] for each in every().values() if each["State"] == "ALIVE"}


@pytest.fixture
def two_more(machines) -> Iterator[list[Any]]:
    added = [machines.add(num_cpus=1) for _ in range(2)]
    yield added
    for machine in added:
        if machine in machines.cluster.worker_nodes:
            machines.kill(machine)


@pytest.mark.slow
def test_no_request_is_lost(machines, two_more, versions, tmp_path, capsys):
    stores = tmp_path / "stores"
    stores.mkdir()
    expected = []
    for name, version in versions.items():
        publish(stores, version)
        expected.append(alone(stores, tmp_path / f"alone-{name}"))
    publish(stores, versions["first"])
    assert len(set(expected)) == 2
    options = ("--replicas", 2, "--replica-cpus", 0.1, "--parts", 2, "--part-replicas", 2)
    where = ("--ray", machines.address, "--port", free_port())
    with (
        served(tmp_path / "served", "--model", f"mini={SHIPPED}", "--stores", stores, *where, *options) as server,
        connected(machines.address),
    ):
        people = People(server.url)
        marks = [("at first", 0.0)]
        people.answered(0.2)
        marks.append(("after a store was replaced", time.monotonic()))
        publish(stores, versions["second"])
        people.answered(0.4)
        assert sum(retries for *_, retries in people.seconds) == 0  # nobody has noticed
        assert set(people.texts) == set(expected)

        of_machine = {machine.node_id: machine for machine in two_more}
        replica = next(
            node for name, node in actors().items() if name.startswith("SERVE_REPLICA") and node in of_machine
        )
        marks.append(("after the machine of a replica was killed", time.monotonic()))
        machines.kill(of_machine.pop(replica))
        people.answered(0.7)
        ((part, machine),) = of_machine.items()
        assert any(name.startswith("npda ") and node == part for name, node in actors().items())
        marks.append(("after the machine of a part was killed", time.monotonic()))
        machines.kill(machine)
        for thread in people.threads:
            thread.join(PATIENCE)
        assert people.faults == []
        assert len(people.texts) == REQUESTS
        assert set(people.texts[-CLIENTS:]) == {expected[1]}
        with capsys.disabled():
            report(people, marks)
        refuses_changes(server)
        assert server.end(signal.SIGTERM) == 0
        assert not [name for name in actors() if name.startswith(("npda ", "SERVE_REPLICA"))]


@pytest.mark.slow
def test_what_cannot_be_served_is_a_sentence(machines, tmp_path):
    opened = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "stores").mkdir()
    of_this_process = Path(f"/proc/self/fd/{opened}/stores")
    settings = Settings({"mini": SHIPPED}, tmp_path, of_this_process, port=free_port())
    options = OnCluster(machines.address, SearchOnCluster(cpus=0.1), cpus=0.1)
    with pytest.raises(InputError, match=r"does not see .*use a directory that all machines share"):
        serve_on(options, settings, lambda port: None)
    os.close(opened)
    too_many = replace(options, replicas=1_000)
    with pytest.raises(InputError, match=r"1000 replicas need 100: ask for fewer"):
        serve_on(too_many, replace(settings, stores=None), lambda port: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = replace(settings, stores=None, port=taken.getsockname()[1])
        with pytest.raises(InputError, match=rf"Nothing can listen on 127\.0\.0\.1, port {settings.port}"):
            serve_on(options, settings, lambda port: None)


def report(people: People, marks: list[tuple[str, float]]) -> None:
    """How long answers took that came from one event to the next."""
    print()
    for place, (what, start) in enumerate(marks):
        end = marks[place + 1][1] if place + 1 < len(marks) else float("inf")
        found = [(took, retries) for ended, took, retries in people.seconds if start <= ended < end]
        seconds = [took for took, _ in found]
        told = f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s" if seconds else ""
        print(f"{what}: {len(found)} answers, {told}, {sum(retries for _, retries in found)} retries")


def refuses_changes(server: Served) -> None:
    answer = httpx.post(f"{server.url}/v1/terms", json={"name": "a", "pairs": []}, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only")
