"""Stores and jobs over HTTP: made, changed, deleted, cancelled, with a tiny model that computes at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import serving_fakes
import tiny_store
from fastapi.testclient import TestClient

from npda.corpus.pairs import Pair
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.translator import Translator

PATIENCE = 120.0  # seconds after which something hangs
QUIET = BuildOptions(progress=False)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(tiny_store.backbone())


@pytest.fixture
def engine(translator: Translator) -> serving_fakes.FakeEngine:
    engine = serving_fakes.FakeEngine()
    engine.translator = translator
    return engine


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings({"mini": tmp_path / "none"}, tmp_path / "data", tmp_path / "stores", max_pairs=1000, language="de")


@pytest.fixture
def client(settings: Settings, engine: serving_fakes.FakeEngine) -> Iterator[TestClient]:
    with TestClient(create_app(settings, engine), base_url="http://localhost") as client:
        yield client


def table(pairs: list[Pair]) -> bytes:
    return "".join(f"{pair.src_text} or so\t{pair.tgt_text}\n" for pair in pairs).encode()


def send(client: TestClient, path: str = "/v1/stores", content: bytes | None = None, file: str = "t.tsv", **data: str):
    content = table(tiny_store.pairs(12)) if content is None else content
    return client.post(path, files={"file": (file, content)}, data=data)


def ended(client: TestClient, answer: Any) -> dict[str, Any]:
    """The job of an answer when it is over."""
    assert answer.status_code == 202, answer.text
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        job = client.get(f"/v1/jobs/{answer.json()['id']}").json()
        if job["state"] not in ("queued", "running"):
            return job
        time.sleep(0.01)
    raise TimeoutError


def test_a_table_becomes_a_store(client: TestClient, settings: Settings, translator: Translator, tmp_path: Path):
    answer = send(client, file="d.tsv", name="debates", licence="CC BY 4.0", origin="the archive")
    job = ended(client, answer)
    assert (job["state"], job["kind"], job["target"], job["progress"]) == ("done", "create", "debates", 1.0)
    (store,) = client.get("/v1/stores").json()["data"]
    assert store == client.get("/v1/stores/debates").json()
    assert (store["name"], store["model"], store["editable"]) == ("debates", "mini", True)
    (source,) = store["sources"]
    assert (source["name"], source["sentences"], source["licence"], source["user"]) == (
        "debates", 12, "CC BY 4.0", "anyone",
    )  # fmt: skip
    assert (store["card"]["licence"], store["card"]["gain"], store["card"]["harm"]) == ("CC BY 4.0", None, None)
    made = Datastore.open(settings.data / "stores" / "debates")
    pairs = [Pair(f"{pair.src_text} or so", pair.tgt_text) for pair in tiny_store.pairs(12)]
    expected = Datastore.build_from(translator, Source("debates", pairs), tmp_path / "expected", QUIET)
    assert made.info.shards == expected.info.shards
    assert job["result"] == {"keys": len(expected), "sentences": 12}
    assert list((settings.data / "jobs").iterdir()) == []
    assert serving_fakes.left(settings.data) == []
