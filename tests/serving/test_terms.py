"""Endpoints for lists of terms, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import serving_fakes
from fastapi.testclient import TestClient

from npda.serving.app import create_app
from npda.serving.settings import Key, Settings

TMX = """<?xml version="1.0"?><tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en"><seg>cabinet</seg></tuv><tuv xml:lang="de"><seg>Kabinett</seg></tuv></tu></body></tmx>"""
BOMB = '<!DOCTYPE tmx [<!ENTITY a "b">]>'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings({"mini": tmp_path / "none", "other": tmp_path / "no"}, tmp_path / "data")


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings, serving_fakes.FakeEngine()), base_url="http://localhost") as client:
        yield client


def create(client: TestClient, name: str = "house", pairs: Any = (("cabinet", "Kabinett"),), **more: Any) -> Any:
    return client.post("/v1/terms", json={"name": name, "pairs": pairs, **more})


def upload(client: TestClient, content: str, file: str = "list.csv", **fields: str) -> Any:
    return client.post("/v1/terms", files={"file": (file, content.encode())}, data={"name": "house", **fields})


def pairs(client: TestClient, name: str = "house") -> list[tuple[str, str]]:
    return [(pair["source"], pair["target"]) for pair in client.get(f"/v1/terms/{name}").json()["pairs"]]


def test_a_list_is_made_read_changed_and_deleted(client: TestClient, settings: Settings) -> None:
    made = create(client, pairs=[["cabinet", "Kabinett"], {"source": "car|automobile", "target": "Kraftwagen"}])
    assert (made.status_code, made.json()["pairs"], made.json()["user"]) == (201, 2, "anyone")
    assert pairs(client) == [("cabinet", "Kabinett"), ("car | automobile", "Kraftwagen")]
    path = "/v1/terms/house/pairs"
    assert client.put(f"{path}/cabinet", json={"source": "cabinet", "target": "Regierung"}).json()["pairs"] == 2
    assert client.put(f"{path}/a%2Fb", json={"source": "a/b", "target": "c"}).json()["pairs"] == 3
    assert client.put(f"{path}/a%2Fb", json={"source": "a/b/c", "target": "d"}).json()["pairs"] == 3
    assert pairs(client) == [("cabinet", "Regierung"), ("car | automobile", "Kraftwagen"), ("a/b/c", "d")]
    assert client.delete(f"{path}/car%7Cautomobile").status_code == 204
    assert client.delete(f"{path}/car").status_code == 404
    assert client.put("/v1/terms/house", json={"pairs": [["x", "y"]]}).json()["pairs"] == 1
    (listed,) = client.get("/v1/terms").json()["data"]
    assert (listed["name"], listed["pairs"], listed["model"]) == ("house", 1, None)
    client.__exit__()
    with TestClient(create_app(settings, serving_fakes.FakeEngine()), base_url="http://localhost") as again:
        assert pairs(again) == [("x", "y")]
        assert again.delete("/v1/terms/house").status_code == 204
        for answer in (
            again.get("/v1/terms/house"),
            again.delete("/v1/terms/house"),
            again.put(f"{path}/a", json=["a", "b"]),
        ):
            assert answer.status_code == 404


def test_a_list_may_be_meant_for_one_model(client: TestClient) -> None:
    assert create(client, "mine", model="mini").status_code == 201
    assert create(client, "all").status_code == 201
    names = [each["name"] for each in client.get("/v1/terms", params={"model": "other"}).json()["data"]]
    assert names == ["all"]
    assert create(client, "third", model="nothing").status_code == 404


@pytest.mark.parametrize(
    ("content", "file", "expected"),
    [
        ("source\ttarget\ncabinet\tKabinett\n", "a.tsv", [("cabinet", "Kabinett")]),
        ('cabinet;"Kabinett; klein"\n', "a.csv", [("cabinet", "Kabinett; klein")]),
        (TMX, "a.tmx", [("cabinet", "Kabinett")]),
        ("source,target,target_plural\nteacher,Lehrkraft,Lehrkräfte\n", "a.csv", [("teacher", "Lehrkraft")]),
    ],
)
def test_lists_are_uploaded(client: TestClient, content: str, file: str, expected: list[tuple[str, str]]) -> None:
    made = upload(client, content, file, source_language="en", target_language="German")
    assert made.status_code == 201, made.text
    assert pairs(client) == expected


def test_a_learnt_list_keeps_its_renderings(client: TestClient) -> None:
    table = "source\ttarget\trenderings\tpurity\tcontexts\tform\tlike\n"
    table += (
        "teacher\tLehrkraft\tLehrer\t0.9\t12\t\tsecretary\nteacher\tLehrkräfte\tLehrern | Lehrer\t0.5\t9\tplural\t\n"
    )
    assert upload(client, table, "terms.tsv").status_code == 201
    (pair,) = client.get("/v1/terms/house").json()["pairs"]
    assert pair["renderings"] == [{"text": "Lehrer", "purity": 0.9}]
    assert (pair["target_plural"], pair["like"], pair["learnt"]) == ("Lehrkräfte", "secretary", True)


@pytest.mark.parametrize(
    ("content", "file", "says"),
    [
        ("", "list.csv", "list.csv has no terms"),
        ("one\n", "list.csv", "list.csv, line 1"),
        ("a,b\na,c\n", "list.csv", "is in line 1 already"),
        (TMX, "list.tmx", "say source_language and target_language"),
        (TMX.replace("<tmx", f"{BOMB}<tmx"), "list.tmx", "entities"),
        ("a,\x00b\n", "list.csv", "control characters"),
        (f"a,{'b' * 500}\n", "list.csv", "more than 200 letters"),
    ],
)
def test_what_is_no_list_is_refused(client: TestClient, content: str, file: str, says: str) -> None:
    languages = {"source_language": "en", "target_language": "de"} if BOMB in content else {}
    answer = upload(client, content, file, **languages)
    assert answer.status_code == 422
    assert says in answer.json()["error"]["message"]
    assert "uploads" not in answer.text
    assert client.get("/v1/terms").json()["data"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "../a", "pairs": []}, 422),
        ({"name": "a", "pairs": [["one"]]}, 422),
        ({"name": "a", "pairs": [["one", ""]]}, 422),
        ({"name": "a", "pairs": [["?!", "b"]]}, 422),
        ({"name": "a", "pairs": [["one", "b"], ["One", "c"]]}, 422),
        ({"name": "a", "pairs": [["one\ud800", "b"]]}, 422),
        ({"name": "a", "pairs": [{"source": "a", "target": "b", "more": 1}]}, 422),
        ({"name": "a", "pairs": [{"source": "a", "target": "b", "source_plural": "as"}]}, 422),
        ({"name": "a"}, 422),
        ({"pairs": []}, 422),
        ([], 422),
        ({"name": "taken", "pairs": []}, 409),
    ],
)
def test_faulty_bodies_are_refused_with_a_sentence(client: TestClient, body: Any, status: int) -> None:
    create(client, "taken")
    answer = client.post("/v1/terms", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]["message"].endswith(".")
    assert len(client.get("/v1/terms").json()["data"]) == 1


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [(b"{", "application/json", 400), (b"[" * 100_000, "application/json", 400), (b"a", "text/plain", 415)],
)
def test_what_is_no_json_is_refused(client: TestClient, content: bytes, kind: str, status: int) -> None:
    assert client.post("/v1/terms", content=content, headers={"Content-Type": kind}).status_code == status


def test_only_keys_that_may_edit_change_lists(tmp_path: Path) -> None:
    keys = (Key("reader", "r", edits=False), Key("editor", "e"))
    settings = Settings({"mini": tmp_path}, tmp_path / "data", keys=keys)
    with TestClient(create_app(settings, serving_fakes.FakeEngine()), base_url="http://localhost") as client:
        client.headers["Authorization"] = "Bearer e"
        assert create(client).json()["user"] == "editor"
        client.headers["Authorization"] = "Bearer r"
        assert client.get("/v1/terms/house").status_code == 200
        path = "/v1/terms/house/pairs/cabinet"
        for answer in (
            create(client, "b"),
            client.put(path, json=["a", "b"]),
            client.delete(path),
            client.delete("/v1/terms/house"),
        ):
            assert answer.status_code == 403
        del client.headers["Authorization"]
        assert client.get("/v1/terms").status_code == 401
