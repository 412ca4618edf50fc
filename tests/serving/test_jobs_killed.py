"""Servers that die with SIGKILL in the middle of a job: nothing half-written is ever seen, and the next one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import serving_fakes
import tiny_store
from child_env import child_env
from fastapi.testclient import TestClient
from held_engine import HeldEngine, assert_alike

from npda.corpus.pairs import Pair
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.serving.stores import building

CHUNK = 4  # sentences a shard: two slices each
FIRST = [Pair(f"{pair.src_text} or so it is", pair.tgt_text) for pair in tiny_store.pairs(12)]
MORE = [Pair(f"{pair.src_text} or so it was", pair.tgt_text) for pair in tiny_store.pairs(10, seed=1)]

# Makes a store, adds to it, and dies before slice N, or when the last version has just been published.
CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import test_jobs_killed as here
from fastapi.testclient import TestClient
from npda.serving.stores.jobs import Jobs
from npda.serving.stores.library import StoreLibrary

point, data = sys.argv[1], Path(sys.argv[2])

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

engine = here.HeldEngine()
if point.isdigit():
    engine.before = lambda number: number > int(point) and die()
else:
    publish, published = StoreLibrary.publish, []
    def watched(library, name, folder):
        publish(library, name, folder)
        if point == "published" and published:
            die()
        published.append(name)
    StoreLibrary.publish = watched
with TestClient(here.app(data, engine), base_url="http://localhost") as client:
    here.work(client)
    here.wait(client)
raise SystemExit("it survived")
"""


def app(data: Path, engine: HeldEngine):
    building._CHUNK = CHUNK
    return create_app(Settings({"mini": data / "none"}, data), engine)


def work(client: TestClient) -> None:
    """Have a store made, and added to."""
    for path, pairs, name in (("", FIRST, "name"), ("/talk/sources", MORE, "source")):
        content = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs).encode()
        if path:
            wait(client)
        answer = client.post(
            f"/v1/stores{path}",
            files={"file": ("t.tsv", content)},
            data={name: "talk" if name == "name" else "more"},
        )
        assert answer.status_code == 202, answer.text


def wait(client: TestClient) -> list[str]:
    """→ the states of all jobs when they are over"""
    while True:
        states = [job["state"] for job in client.get("/v1/jobs").json()["data"]]
        if not {"queued", "running"} & set(states):
            return states
        time.sleep(0.01)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Datastore:
    model = tiny_store.backbone()
    options = BuildOptions(chunk=CHUNK, progress=False)
    path = tmp_path_factory.mktemp("expected") / "store"
    store = Datastore.build_from(model, Source("talk", FIRST), path, options)
    return store.append(model, Source("more", MORE), options)


@pytest.mark.parametrize(("point", "visible"), [("3", 0), ("9", 12), ("published", 22)])
def test_a_killed_server_loses_nothing(
    tmp_path: Path, expected: Datastore, monkeypatch: pytest.MonkeyPatch, point: str, visible: int
):
    monkeypatch.setattr(building, "_CHUNK", CHUNK)  # and as it was, afterwards
    command = [sys.executable, "-c", CHILD, point, str(tmp_path), str(Path(__file__).parent)]
    child = subprocess.run(command, env=child_env(), capture_output=True, text=True, timeout=500)
    assert child.returncode == -9, child.stderr
    stores = list((tmp_path / "stores").iterdir())
    assert len(stores) == (visible > 0)
    for store in stores:
        verify(store, progress=False)
        assert sum(source.sentences for source in Datastore.open(store).info.sources) == visible
    engine = HeldEngine()
    with TestClient(app(tmp_path, engine), base_url="http://localhost") as client:
        states = wait(client)
        assert set(states) == {"done"}
        if visible == 0:  # the second job was never sent
            assert [store["keys"] for store in client.get("/v1/stores").json()["data"]] == [
                expected.info.sources[0].keys
            ]
            assert engine.slices == 2 * 2  # the first of three shards was there
            return
        assert engine.slices <= {"9": 2 * 3, "published": 0}[point]
    found = Datastore.open(tmp_path / "stores" / "talk")
    verify(found.path, progress=False)
    assert_alike(found, expected)
    assert len(os.listdir(tmp_path / "versions")) == 1
    assert os.listdir(tmp_path / "jobs") == []
    assert serving_fakes.left(tmp_path) == []
