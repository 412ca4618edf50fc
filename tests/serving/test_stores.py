"""Stores and jobs over HTTP: made, changed, deleted, cancelled, with a tiny model that computes at once."""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serving_fakes
import tiny_store
from fastapi.testclient import TestClient
from held_engine import PATIENCE, HeldEngine, assert_alike

from npda.corpus.pairs import Pair
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.io.errors import InputError
from npda.serving.app import create_app
from npda.serving.engine.asks import AUTO
from npda.serving.logs import JsonLines
from npda.serving.settings import Key, Settings
from npda.serving.stores import building
from npda.serving.stores.corrections import Corrected
from npda.translator import Translator

QUIET = BuildOptions(progress=False)
TMX = (
    '<tmx version="1.4"><header srclang="en"/><body>'
    + "".join(
        f'<tu><tuv xml:lang="en-GB"><seg>The floor is yours {n}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>Der Boden ist kalt {n}</seg></tuv></tu>'
        for n in range(5)
    )
    + "</body></tmx>"
).encode()


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(tiny_store.backbone())


@pytest.fixture
def engine(translator: Translator) -> HeldEngine:
    return HeldEngine(translator)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings({"mini": tmp_path / "none"}, tmp_path / "data", tmp_path / "stores", max_pairs=500, max_jobs=3)


@pytest.fixture
def client(settings: Settings, engine: HeldEngine) -> Iterator[TestClient]:
    with TestClient(create_app(settings, engine), base_url="http://localhost") as client:
        yield client
        engine.go.set()


def said(count: int, seed: int = 0) -> list[Pair]:
    """Sentences that are no glossary."""
    return [Pair(f"{pair.src_text} or so it is", pair.tgt_text) for pair in tiny_store.pairs(count, seed)]


def table(pairs: list[Pair]) -> bytes:
    return "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs).encode()


def send(client: TestClient, to: str = "", content: bytes | None = None, file: str = "t.tsv", **data: str) -> Any:
    """to: the store to add to, a new one by default"""
    path = f"/v1/stores/{to}/sources" if to else "/v1/stores"
    return client.post(path, files={"file": (file, table(said(12)) if content is None else content)}, data=data)


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


def at_work(client: TestClient, engine: HeldEngine, answer: Any) -> None:
    """Wait until the job of an answer is held in the middle of its work."""
    until = time.monotonic() + PATIENCE
    while not engine.held or client.get(f"/v1/jobs/{answer.json()['id']}").json()["state"] != "running":
        assert time.monotonic() < until
        time.sleep(0.01)


def made(client: TestClient, name: str = "talk", licence: str = "") -> None:
    assert ended(client, send(client, name=name, licence=licence))["state"] == "done"


def versions(settings: Settings) -> list[str]:
    return sorted(os.listdir(settings.data / "versions"))


def test_a_table_becomes_a_store(client: TestClient, settings: Settings, translator: Translator, tmp_path: Path):
    answer = send(client, file="d.tsv", name="debates", licence="CC BY 4.0", origin="the archive", language="German")
    job = ended(client, answer)
    assert (job["state"], job["kind"], job["target"], job["progress"]) == ("done", "create", "debates", 1.0)
    (store,) = client.get("/v1/stores").json()["data"]
    assert store == client.get("/v1/stores/debates").json()
    assert (store["name"], store["model"], store["editable"]) == ("debates", "mini", True)
    (source,) = store["sources"]
    assert (source["name"], source["sentences"], source["languages"]) == ("debates", 12, ["de"])
    assert (source["licence"], source["origin"], source["user"]) == ("CC BY 4.0", "the archive", "anyone")
    card = store["card"]
    assert (card["licence"], card["tuned"], card["gain"], card["harm"]) == ("CC BY 4.0", None, None, None)
    found = Datastore.open(settings.data / "stores" / "debates")
    expected = Datastore.build_from(translator, Source("debates", said(12)), tmp_path / "expected", QUIET)
    assert_alike(found, expected)
    assert job["result"] == {"keys": len(expected), "sentences": 12}
    assert list((settings.data / "jobs").iterdir()) == []
    assert serving_fakes.left(settings.data) == []


@pytest.mark.parametrize(
    ("file", "content", "data"),
    [
        ("a.csv", b'English;German\n"The floor; is yours now";"Das ""Wort"" haben Sie"\n', {}),
        ("b.csv", b"German,English\nDas Wort haben Sie,The floor is yours\n", {"language": "de"}),
        ("memory", TMX, {"language": "de"}),
        ("memory.tmx", b"\xef\xbb\xbf" + TMX, {"source_language": "en", "language": "de"}),
        ("short.csv", b"Stop,Halt\nTurn left,Links\n", {"kind": "sentences"}),
    ],
)
def test_files_of_all_kinds(client: TestClient, file: str, content: bytes, data: dict[str, str]):
    assert ended(client, send(client, content=content, file=file, name="talk", **data))["state"] == "done"


@pytest.mark.parametrize(
    ("file", "content", "data", "status", "says"),
    [
        ("t.csv", b"floor,Wort\nchair,Vorsitz\n", {}, 422, "POST it to /v1/terms"),
        ("t.tsv", b"", {}, 422, "t.tsv is empty"),
        ("t.tsv", b"\n \n", {}, 422, "t.tsv is empty"),
        ("t.txt", b"No translation here at all.\nNor here.\n", {}, 422, "is not a table of pairs"),
        ("t.tsv", b"One side is all there is\t\n", {}, 422, "t.tsv, line 1: a side of the pair is empty"),
        ("t.tsv", b"One is fine here\tgut\nand\tthis\tis not\n", {}, 422, "is not a table of pairs"),
        ("t.tsv", b"Not in UTF-8 it is\tsch\xf6n\n", {}, 422, "t.tsv, line 1: byte 0xf6 is not UTF-8"),
        ("t.xlsx", b"PK\x03\x04 and more", {}, 415, "save the table as CSV"),
        ("t.tmx.gz", b"\x1f\x8b and more", {}, 415, "unpack it"),
        ("t.tmx", b'<!DOCTYPE a [<!ENTITY b "c">]><tmx>&b;</tmx>', {}, 422, "entities"),
        ("t.tmx", b"<html></html>", {}, 422, "is not TMX"),
        ("t.tmx", b"<tmx><broken", {}, 422, "t.tmx, line 1"),
        ("t.tmx", TMX, {"source_language": "fr", "language": "de"}, 422, "t.tmx has no unit with text in both fr"),
        ("t.tmx", TMX.replace(b'"de"', b'"en-US"'), {"language": "de"}, 422, "t.tmx has en."),
        ("t.tsv", table(said(501)), {}, 413, "more than 500 pairs"),
        ("t.tsv", b"word " * 1200 + b"\tWort\n", {}, 422, "more than 5,000 letters"),
        ("t.tsv", None, {"name": "../etc"}, 422, "cannot be called '../etc'"),
        ("t.tsv", None, {"name": "auto"}, 422, "a meaning of its own"),
        ("t.tsv", None, {"name": ""}, 422, "cannot be called ''"),
        ("t.tsv", None, {"model": "other"}, 404, "no model 'other'"),
        ("t.tsv", None, {"model": "mini+talk"}, 422, "without stores"),
        ("t.tsv", None, {"language": "Klingon"}, 422, "Klingon"),
        ("t.tsv", None, {"colour": "red"}, 422, "'colour' is no field"),
        ("t.tsv", None, {"kind": "terms"}, 422, "auto or sentences"),
        ("t.tsv", None, {"source": "x" * 300}, 422, "200 letters at most"),
    ],
)
def test_what_cannot_be_taken_is_refused_at_once(
    client: TestClient, settings: Settings, file: str, content: bytes | None, data: dict[str, str], status: int,
    says: str,
):  # fmt: skip
    answer = send(client, content=content, file=file, **{"name": "talk", **data})
    error = answer.json()["error"]
    assert (answer.status_code, says in error["message"]) == (status, True), error
    assert str(settings.data) not in error["message"]
    assert client.get("/v1/jobs").json()["data"] == []
    assert serving_fakes.left(settings.data) == []
    assert list((settings.data / "jobs").iterdir()) == []


def test_a_model_that_cannot_read_is_refused(client: TestClient, engine: HeldEngine):
    engine.translator = Translator(tiny_store.tiny.backbone())
    answer = send(client, name="talk")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "cannot_read")


def test_a_store_grows_and_shrinks(client: TestClient, settings: Settings, translator: Translator, tmp_path: Path):
    made(client, licence="CC0")
    more = table(said(9, seed=1))
    job = ended(client, send(client, "talk", more, file="more.tsv", licence="GPL"))
    assert (job["kind"], job["result"]["sentences"]) == ("append", 21)
    store = client.get("/v1/stores/talk").json()
    assert [source["name"] for source in store["sources"]] == ["talk", "more.tsv"]
    assert [source["licence"] for source in store["sources"]] == ["CC0", "GPL"]
    assert len(versions(settings)) == 1
    verify(settings.data / "stores" / "talk", progress=False)
    expected = Datastore.build_from(translator, Source("talk", said(12)), tmp_path / "expected", QUIET)
    expected = expected.append(translator, Source("more.tsv", said(9, seed=1)), QUIET)
    assert_alike(Datastore.open(settings.data / "stores" / "talk"), expected)
    again = send(client, "talk", more, file="more.tsv")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "source_exists")
    assert ended(client, client.delete("/v1/stores/talk/sources/talk"))["kind"] == "remove"
    store = client.get("/v1/stores/talk").json()
    assert ([source["name"] for source in store["sources"]], store["card"]["licence"]) == (["more.tsv"], "GPL")
    last = client.delete("/v1/stores/talk/sources/more.tsv")
    assert (last.status_code, last.json()["error"]["code"]) == (409, "only_source")
    assert client.delete("/v1/stores/talk/sources/none").status_code == 404
    assert client.delete("/v1/stores/talk").status_code == 204
    assert client.get("/v1/stores").json()["data"] == []
    assert versions(settings) == []
    for answer in (client.delete("/v1/stores/talk"), client.get("/v1/stores/talk"), send(client, "talk")):
        assert answer.status_code == 404


def test_who_reads_a_version_keeps_it_until_the_end(client: TestClient, settings: Settings, translator: Translator):
    made(client)
    library = client.app.state.npda.library  # type: ignore[attr-defined]
    (first,) = versions(settings)
    held = library.held(translator, "mini", ("talk",))
    before = len(held.members[0].version.store)
    ended(client, send(client, "talk", table(said(9, seed=1)), file="more.tsv"))
    with library.held(translator, "mini", AUTO) as new:
        assert len(new.members[0].version.store) > before
        assert new.signature != held.signature
    old = held.members[0].version.store
    assert (len(old), len(versions(settings))) == (before, 2)
    queries = old.entries.keys(np.arange(3))
    np.testing.assert_allclose(old.search(queries, 1).distances, 0, atol=1e-3)
    assert client.delete("/v1/stores/talk").status_code == 204
    assert versions(settings) == [first]
    del old
    held.release()
    assert versions(settings) == []


def test_jobs_wait_in_a_queue_and_can_be_cancelled(client: TestClient, engine: HeldEngine, settings: Settings):
    engine.go.clear()
    one = send(client, name="one")
    at_work(client, engine, one)
    two, three, four = (send(client, name=name) for name in ("two", "three", "four"))
    full = send(client, name="five")
    assert (full.status_code, "Retry-After" in full.headers) == (503, True)
    assert send(client, name="two").json()["error"]["code"] == "store_exists"
    jobs = client.get("/v1/jobs").json()["data"]
    assert [(job["target"], job["state"], job["place"]) for job in jobs] == [
        ("one", "running", None), ("two", "queued", 1), ("three", "queued", 2), ("four", "queued", 3),
    ]  # fmt: skip
    assert jobs[0]["step"].startswith("building one")
    figures = client.get("/metrics").text
    assert 'npda_jobs{state="running"} 1.0' in figures
    assert 'npda_jobs{state="queued"} 3.0' in figures
    assert client.delete(f"/v1/jobs/{two.json()['id']}").json()["state"] == "cancelled"
    assert client.get(f"/v1/jobs/{three.json()['id']}").json()["place"] == 1
    assert client.delete(f"/v1/jobs/{one.json()['id']}").json()["step"] == "cancelling"
    engine.go.set()
    assert ended(client, one)["state"] == "cancelled"
    assert [ended(client, answer)["state"] for answer in (three, four)] == ["done", "done"]
    assert [store["name"] for store in client.get("/v1/stores").json()["data"]] == ["four", "three"]
    assert len(versions(settings)) == 2
    assert list((settings.data / "jobs").iterdir()) == []
    assert client.delete(f"/v1/jobs/{one.json()['id']}").status_code == 200  # it is cancelled
    assert client.delete(f"/v1/jobs/{four.json()['id']}").status_code == 409
    assert client.delete("/v1/jobs/none").status_code == client.get("/v1/jobs/none").status_code == 404


def test_a_store_that_is_being_changed_is_not_deleted(client: TestClient, engine: HeldEngine):
    made(client)
    engine.go.clear()
    job = send(client, "talk", table(said(9, seed=1)), file="more.tsv")
    assert client.delete("/v1/stores/talk").json()["error"]["code"] == "store_busy"
    client.delete(f"/v1/jobs/{job.json()['id']}")
    engine.go.set()
    ended(client, job)
    assert client.delete("/v1/stores/talk").status_code == 204


def test_a_job_that_fails_says_why_and_leaves_nothing(
    client: TestClient, engine: HeldEngine, settings: Settings, caplog: pytest.LogCaptureFixture
):
    def fail(_: int) -> None:
        raise InputError(f"{settings.data}/versions is full.")

    engine.before = fail
    assert ended(client, send(client, name="talk"))["error"].endswith("is full.")

    def break_(_: int) -> None:
        raise KeyError("a secret")

    engine.before = break_
    job = ended(client, send(client, name="talk"))
    assert (job["state"], "secret" in job["error"], job["id"] in job["error"]) == ("failed", False, True)
    assert (versions(settings), client.get("/v1/stores").json()["data"]) == ([], [])
    assert 'npda_jobs_ended_total{kind="create",state="failed"} 2.0' in client.get("/metrics").text


def test_a_full_disk_ends_a_job(client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(building, "FREE", 1 << 60)
    job = ended(client, send(client, name="talk"))
    assert (job["state"], job["error"][:27]) == ("failed", "The server's disk is full: ")
    assert versions(settings) == []


def test_a_store_that_appears_meanwhile_is_not_replaced(client: TestClient, engine: HeldEngine, settings: Settings):
    made(client, "other")
    engine.go.clear()
    job = send(client, name="talk")
    at_work(client, engine, job)
    (settings.data / "stores" / "talk").symlink_to((settings.data / "stores" / "other").resolve())
    engine.go.set()
    assert "A store called talk exists already" in ended(client, job)["error"]
    assert client.get("/v1/stores/talk").json()["keys"] == client.get("/v1/stores/other").json()["keys"]


def test_a_job_goes_on_where_the_server_has_ended(
    settings: Settings, engine: HeldEngine, monkeypatch: pytest.MonkeyPatch, translator: Translator, tmp_path: Path
):
    monkeypatch.setattr(building, "_CHUNK", 4)
    stop = 4  # slices: two of each shard

    def hold(number: int) -> None:
        if number == stop + 1:
            engine.go.clear()

    engine.before = hold
    with TestClient(create_app(settings, engine), base_url="http://localhost") as client:
        job = send(client, name="talk")
        other = send(client, name="other")
        until = time.monotonic() + PATIENCE
        while not engine.held and time.monotonic() < until:
            time.sleep(0.01)
        # It cannot be stopped in the middle of a slice.
        engine.before = lambda number: None
        jobs = client.app.state.npda.jobs  # type: ignore[attr-defined]
        for progress in jobs._progress.values():
            progress.stop()
        engine.go.set()
    begun = engine.slices
    with TestClient(create_app(settings, engine), base_url="http://localhost") as client:
        assert ended(client, job)["state"] == "done"
        assert engine.slices - begun <= 2 * 2 + 2 * 3  # two shards at most of the first, three of the other
        assert ended(client, other)["state"] == "done"
        store = Datastore.open(settings.data / "stores" / "talk")
    options = BuildOptions(progress=False, chunk=4)
    expected = Datastore.build_from(translator, Source("talk", said(12)), tmp_path / "expected", options)
    assert_alike(store, expected)


class TestRights:
    @pytest.fixture
    def client(self, settings: Settings, engine: HeldEngine) -> Iterator[TestClient]:
        keys = (Key("anna", "secret-a"), Key("bert", "secret-b", edits=False))
        settings = Settings(settings.models, settings.data, keys=keys)
        with TestClient(create_app(settings, engine), base_url="http://anything") as client:
            yield client

    def test_who_may_only_translate_changes_nothing(self, client: TestClient):
        client.headers["Authorization"] = "Bearer secret-a"
        made(client)
        assert client.get("/v1/stores/talk").json()["sources"][0]["user"] == "anna"
        client.headers["Authorization"] = "Bearer secret-b"
        assert len(client.get("/v1/stores").json()["data"]) == 1
        (job,) = client.get("/v1/jobs").json()["data"]
        refused = [
            send(client, name="mine"),
            send(client, "talk"),
            client.delete("/v1/stores/talk"),
            client.delete("/v1/stores/talk/sources/talk"),
            client.delete(f"/v1/jobs/{job['id']}"),
        ]
        assert [answer.status_code for answer in refused] == [403] * 5
        assert {answer.json()["error"]["code"] for answer in refused} == {"insufficient_permissions"}
        del client.headers["Authorization"]
        assert [client.get(f"/v1/{what}").status_code for what in ("stores", "stores/talk", "jobs")] == [401] * 3


def test_a_server_that_only_reads_changes_nothing(settings: Settings, engine: HeldEngine, translator: Translator):
    """As those on a cluster, which have no folder in common to write to."""
    assert settings.stores is not None
    Datastore.build_from(translator, Source("theirs", said(5)), settings.stores / "theirs", QUIET)
    reads = replace(settings, reads_only=True)
    with TestClient(create_app(reads, engine), base_url="http://localhost") as client:
        assert [store["name"] for store in client.get("/v1/stores").json()["data"]] == ["theirs"]
        for answer in (
            send(client, name="mine"),
            client.delete("/v1/stores/theirs"),
            client.post("/v1/terms", json={"name": "house", "pairs": []}),
            client.post("/v1/corrections", json={"request_id": "r", "text": "t", "store": "s"}),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only")
    assert serving_fakes.left(settings.data) == []


def test_stores_of_the_operator_are_only_read(client: TestClient, settings: Settings, translator: Translator):
    assert settings.stores is not None
    Datastore.build_from(translator, Source("theirs", said(5)), settings.stores / "theirs", QUIET)
    assert not client.get("/v1/stores/theirs").json()["editable"]
    answers = [
        send(client, "theirs"),
        client.delete("/v1/stores/theirs"),
        client.delete("/v1/stores/theirs/sources/theirs"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 3
    assert send(client, name="theirs").status_code == 409


def test_a_store_of_corrections_can_grow_and_goes_with_them(client: TestClient, translator: Translator):
    state = client.app.state.npda  # type: ignore[attr-defined]
    keys = np.random.default_rng(0).normal(size=(3, translator.backbone.dim)).astype(np.float16)
    corrected = Corrected("heard", "Text", "de", "0", keys, np.arange(3, dtype=np.int32))
    belongs = state.library.belongs(translator, "mini")
    for name in ("grown", "alone"):
        state.corrections.kept.add(name, "mini", belongs, "anna", corrected)
    job = ended(client, send(client, "grown", file="more.tsv"))
    assert (job["kind"], job["state"]) == ("create", "done")
    store = client.get("/v1/stores/grown").json()
    assert (store["card"]["corrections"], [source["name"] for source in store["sources"]]) == (3, ["more.tsv"])
    for name in ("grown", "alone"):
        assert client.delete(f"/v1/stores/{name}").status_code == 204
    assert client.get("/v1/stores").json()["data"] == []


def test_logs_name_the_request_that_asked_for_a_job(client: TestClient):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("npda")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        answer = send(client, name="talk")
        ended(client, answer)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    jobs = [line for line in lines if line["message"] == "job"]
    assert [line["state"] for line in jobs] == ["queued", "running", "done"]
    assert {line["request"] for line in jobs} == {answer.headers["X-Request-Id"]}


def test_the_document_names_every_status(client: TestClient):
    paths = client.get("/openapi.json").json()["paths"]
    create = paths["/v1/stores"]["post"]
    assert {"202", "401", "403", "409", "413", "415", "422", "503"} <= set(create["responses"])
    schema = create["requestBody"]["content"]["multipart/form-data"]["schema"]
    assert schema["required"] == ["file", "name"]
    assert set(paths["/v1/jobs/{id}"]) == {"get", "delete"}
