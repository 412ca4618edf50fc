"""Lists of terms with the model of the package: learnt once, live at once, shown with what they replaced."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mini_stores
import pytest
import soundfile
from fastapi.testclient import TestClient

from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.serving.terms import learning as term_learning
from npda.serving.terms import requested as terms

SAID = "My uncle lifted a table in the office."
PLAIN = "Mein Onkel hat im Büro einen Tisch gehoben."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a counter-store of everyday talk."""
    return mini_stores.model(tmp_path_factory.mktemp("made") / "model")


@pytest.fixture(scope="module")
def audio() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, mini_stores.said(SAID), 16_000, format="WAV", subtype="PCM_16")
    return file.getvalue()


@pytest.fixture
def settings(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(terms, "PATIENCE", 300.0)  # the machine may be busy
    return Settings({"mini": model}, tmp_path / "data", source_language="en", language="de")


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Which terms were learnt, call by call."""
    calls: list[list[str]] = []
    original = term_learning.learn_few

    def counted(terms: Any, *given: Any) -> Any:
        calls.append([sources[0] for sources in terms])
        return original(terms, *given)

    monkeypatch.setattr(term_learning, "learn_few", counted)
    return calls


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with serving(settings) as client:
        yield client


def serving(settings: Settings) -> TestClient:
    return TestClient(create_app(settings), base_url="http://localhost")


def translate(client: TestClient, audio: bytes, **fields: str) -> dict[str, Any]:
    files, data = {"file": ("talk.wav", audio)}, {"model": "mini", "response_format": "verbose_json", **fields}
    answer = client.post("/v1/audio/translations", files=files, data=data)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_pairs_of_a_request_are_put_in_and_shown(client: TestClient, audio: bytes, learnt: list[list[str]]) -> None:
    assert translate(client, audio)["text"] == PLAIN
    found = translate(client, audio, terms='[["uncle", "Oheim"]]')
    assert found["text"] == PLAIN.replace("Onkel", "Oheim")
    (segment,) = found["segments"]
    (term,) = segment["terms"]
    assert (term["source"], term["target"], term["rendering"]) == ("uncle", "Oheim", "Onkel")
    assert segment["text"][term["start"] : term["end"]] == "Oheim"
    assert translate(client, audio, terms='[["uncle", "Ohm"]]')["text"] == PLAIN.replace("Onkel", "Ohm")
    assert learnt == [["uncle"]]


def test_a_list_is_live_at_once_and_learnt_once(settings: Settings, audio: bytes, learnt: list[list[str]]) -> None:
    with serving(settings) as client:
        made = client.post("/v1/terms", json={"name": "family", "pairs": [["uncle", "Oheim"], ["xylem", "Holzteil"]]})
        assert made.status_code == 201, made.text
        assert translate(client, audio, terms="family")["text"] == PLAIN.replace("Onkel", "Oheim")
        client.put("/v1/terms/family/pairs/uncle", json={"source": "uncle", "target": "Ohm"})
        assert translate(client, audio, terms="family")["text"] == PLAIN.replace("Onkel", "Ohm")
        uncle, xylem = client.get("/v1/terms/family").json()["pairs"]
        assert (uncle["renderings"], uncle["learnt"]) == ([{"text": "Onkel", "purity": 1.0}], True)
        assert xylem["contexts"] == 5  # nobody says it, so that it was put into short sentences
        assert client.delete("/v1/terms/family/pairs/uncle").status_code == 204
        assert translate(client, audio, terms="family")["text"] == PLAIN
        assert client.put("/v1/terms/family/pairs/uncle", json=["uncle", "Oheim"]).status_code == 200
    with serving(settings) as client:
        assert translate(client, audio, terms="family")["text"] == PLAIN.replace("Onkel", "Oheim")
    assert sorted(each for few in learnt for each in few) == ["uncle", "xylem"]


def test_renderings_that_somebody_gives_are_not_learnt(
    client: TestClient, audio: bytes, learnt: list[list[str]]
) -> None:
    given = {"source": "office", "target": "Kontor", "renderings": [{"text": "Büro", "purity": 0.9}]}
    client.post("/v1/terms", json={"name": "given", "pairs": [given]})
    assert translate(client, audio, terms="given")["text"] == PLAIN.replace("Büro", "Kontor")
    assert learnt == []


def test_articles_change_with_their_noun(client: TestClient, audio: bytes) -> None:
    pair = {"source": "table", "target": "Tafel", "like": "box"}
    client.post("/v1/terms", json={"name": "tables", "pairs": [pair]})
    assert translate(client, audio, terms="tables")["text"] == PLAIN.replace("einen Tisch", "eine Tafel")


def test_long_lists_are_learnt_in_slices_and_few_terms_do_not_wait_for_them(
    client: TestClient, audio: bytes, learnt: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_learning, "SLICE", 4)
    many = [[f"house {number}", f"Bau {number}"] for number in range(40)]
    client.post("/v1/terms", json={"name": "many", "pairs": many})
    found = translate(client, audio, terms='[["uncle", "Oheim"]]')
    assert "Oheim" in found["text"]
    assert ["uncle"] in learnt
    assert all(len(few) <= 4 for few in learnt)
    translate(client, audio, terms="many")
    assert sorted(each for few in learnt for each in few) == sorted(["uncle", *(source for source, _ in many)])
