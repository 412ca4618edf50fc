"""Corrections: kept, laid over stores, listed and removed; over a random model, without one where none is needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import serving_fakes
import tiny_store
from fastapi.testclient import TestClient

from npda.serving.app import create_app
from npda.serving.database import Database
from npda.serving.errors import Refusal
from npda.serving.settings import Key, Settings
from npda.serving.stores.corrections import Corrected, Corrections
from npda.translator import Translator

OURS, THEIRS = ("decoder", "vocabulary"), ("another", "vocabulary")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path)
    yield database
    database.close()


def sentence(seed: int = 0, text: str = "Guten Tag.", audio: str = "", length: int = 3) -> Corrected:
    random = np.random.default_rng(seed)
    keys = random.normal(size=(length, 4)).astype(np.float16).astype(np.float32)
    return Corrected(audio or f"audio {seed}", "heard", text, "de", keys, np.arange(length, dtype=np.int32))


class TestKept:
    def test_they_are_the_same_after_a_restart(self, database: Database) -> None:
        kept = Corrections(database)
        for seed in range(3):
            kept.add("words", "mini", OURS, "anna", sentence(seed, f"Satz {seed}."))
        kept.add("words", "other", THEIRS, "anna", sentence(9))
        again = Corrections(database)
        before, after = kept.of("words", OURS), again.of("words", OURS)
        assert before is not None
        assert after is not None
        np.testing.assert_array_equal(before.keys, after.keys)
        np.testing.assert_array_equal(before.values, after.values)
        assert [each.target_text for each in after.added] == ["Satz 0.", "Satz 1.", "Satz 2."]
        assert again.counts("words") == {OURS: 9, THEIRS: 3}
        assert again.listed() == kept.listed()
        assert [each.text for each in again.listed("words", most=2)] == ["Guten Tag.", "Satz 2."]

    def test_every_user_has_a_source(self, database: Database) -> None:
        kept = Corrections(database)
        kept.add("words", "mini", OURS, "anna", sentence(1))
        kept.add("words", "mini", OURS, "ben", sentence(2))
        kept.add("more", "mini", OURS, "anna", sentence(3))
        overlay = kept.of("words", OURS)
        assert overlay is not None
        assert [overlay.neighbour_info(place).source for place in (0, 3)] == [
            "corrections by anna",
            "corrections by ben",
        ]
        assert kept.stores() == kept.stores(OURS) == ["more", "words"]
        assert kept.stores(THEIRS) == []
        assert kept.remove_all("words", "anna") == 1
        assert [each.user for each in kept.listed("words")] == ["ben"]
        assert len(overlay) == 6  # whoever searches goes on with what there was
        assert kept.counts("words") == {OURS: 3}

    def test_the_same_audio_has_its_latest_text(self, database: Database) -> None:
        kept = Corrections(database)
        first = kept.add("words", "mini", OURS, "anna", sentence(1, "Guten Morgen.", "same"))
        kept.add("words", "mini", OURS, "ben", sentence(2, "Guten Abend.", "same", length=5))
        assert [each.text for each in kept.listed()] == ["Guten Abend."]
        assert kept.counts("words") == {OURS: 5}
        with pytest.raises(Refusal) as refused:
            kept.remove(first.id)
        assert refused.value.status == 404

    def test_versions_never_come_back(self, database: Database) -> None:
        """Requests that are steered alike are told by them."""
        kept, seen = Corrections(database), set()
        for _ in range(3):
            added = kept.add("words", "mini", OURS, "anna", sentence(1))
            overlay = kept.of("words", OURS)
            assert overlay is not None
            seen.add(overlay.version)
            kept.remove(added.id)
            assert kept.of("words", OURS) is None
        assert len(seen) == 3


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    engine = serving_fakes.FakeEngine()
    engine.translator = Translator(tiny_store.backbone())
    keys = (Key("anna", "a"), Key("reader", "r", edits=False))
    settings = Settings({"mini": tmp_path / "none", "other": tmp_path / "no"}, tmp_path / "data", keys=keys)
    with TestClient(create_app(settings, engine), base_url="http://localhost") as client:
        client.headers["Authorization"] = "Bearer a"
        yield client


@pytest.fixture
def request_id(client: TestClient) -> str:
    """Of a request with two segments."""
    data = {"model": "mini", "response_format": "verbose_json"}
    files = {"file": ("talk.wav", serving_fakes.wav(3.0))}
    return client.post("/v1/audio/translations", files=files, data=data).json()["request_id"]


def correct(client: TestClient, **body: Any) -> Any:
    return client.post("/v1/corrections", content=json.dumps(body), headers={"Content-Type": "application/json"})


def test_a_segment_is_corrected_listed_and_taken_back(client: TestClient, request_id: str) -> None:
    made = correct(client, request_id=request_id, segment=1, text="the  door", store="words", heard="die Tür")
    assert made.status_code == 201, made.text
    found = made.json()
    assert (found["store"], found["text"], found["user"], found["heard"]) == ("words", "the door", "anna", "die Tür")
    assert found["keys"] > 1
    library = client.app.state.npda.library  # pyright: ignore[reportAttributeAccessIssue]
    (card,) = library.cards()
    assert (card.name, card.keys) == ("words", found["keys"])
    assert client.get("/v1/corrections", params={"store": "words", "user": "anna"}).json()["data"] == [found]
    assert client.get("/v1/corrections", params={"store": "other"}).json()["data"] == []
    path = f"/v1/corrections/{found['id']}"
    client.headers["Authorization"] = "Bearer r"
    assert client.get("/v1/corrections").status_code == 200
    for answer in (client.delete(path), client.delete("/v1/corrections", params={"store": "words"})):
        assert answer.status_code == 403
    assert correct(client, request_id=request_id, segment=1, text="a", store="words").status_code == 403
    client.headers["Authorization"] = "Bearer a"
    assert [client.delete(path).status_code for _ in range(2)] == [204, 404]
    correct(client, request_id=request_id, segment=1, text="the door", store="words")
    library.delete("words")  # which consists of corrections alone
    assert client.get("/v1/corrections").json()["data"] == library.cards() == []


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [
        ({"request_id": "req_unknown"}, 404, "request_id"),
        ({"segment": 2}, 422, "segment"),
        ({"segment": -1}, 422, "segment"),
        ({"segment": 10**30}, 422, "segment"),
        ({"segment": None}, 422, "segment"),  # there are two
        ({"text": " "}, 422, "text"),
        ({"text": "\u0000"}, 422, "text"),
        ({"text": "\ud800"}, 422, "text"),
        ({"text": "x" * 5_000}, 422, "text"),
        ({"text": "the door " * 400}, 422, None),  # more than the model can write
        ({"store": "../words"}, 422, "name"),
        ({"more": 1}, 422, "more"),
    ],
)
def test_what_cannot_be_corrected_is_refused(
    client: TestClient, request_id: str, changes: dict[str, Any], status: int, param: str | None
) -> None:
    wish = {"request_id": request_id, "segment": 0, "text": "the door", "store": "words", **changes}
    answer = correct(client, **wish)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert error["message"].endswith(".")
    assert client.get("/v1/corrections").json()["data"] == []


def test_a_server_with_a_library_of_its_own_keeps_none(tmp_path: Path) -> None:
    settings = Settings({"mini": tmp_path}, tmp_path / "data")
    app = create_app(settings, serving_fakes.FakeEngine(), serving_fakes.FakeLibrary())
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/v1/corrections").status_code == 404
        assert client.get("/v1/terms").status_code == 404
