"""Corrections with the model of the package: the sentence comes out right when it is said again, others stay."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mini_stores
import numpy as np
import pytest
import soundfile
from fastapi.testclient import TestClient

from npda.corpus.mini.grammar import sentences
from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.translator import Translator

SAID = "The motion was adopted by the committee this morning."
RIGHT = "Der Ausschuss nahm heute früh den Antrag an."
GENERAL = [pair.src_text for pair in sentences("general", "test", "de", 0)[:6]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model/ with a counter-store, and stores/parliament/"""
    folder = tmp_path_factory.mktemp("made")
    translator = Translator.from_pretrained(mini_stores.model(folder / "model"))
    (folder / "stores").mkdir()
    mini_stores.store(translator, folder / "stores" / "parliament", mini_stores.parliament(120))
    return folder


@pytest.fixture
def settings(made: Path, tmp_path: Path) -> Settings:
    return Settings({"mini": made / "model"}, tmp_path / "data", made / "stores", language="de")


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with serving(settings) as client:
        yield client


def serving(settings: Settings) -> TestClient:
    return TestClient(create_app(settings), base_url="http://localhost")


def wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def translate(client: TestClient, audio: bytes, **fields: str) -> dict[str, Any]:
    files = {"file": ("talk.wav", audio)}
    data = {"model": "mini", "response_format": "verbose_json", **fields}
    answer = client.post("/v1/audio/translations", files=files, data=data)
    assert answer.status_code == 200, answer.text
    return answer.json()


def correct(client: TestClient, answer: dict[str, Any], text: str = RIGHT, **fields: Any) -> dict[str, Any]:
    body = {"request_id": answer["request_id"], "segment": 0, "text": text, "store": "corrections", **fields}
    made = client.post("/v1/corrections", json=body)
    assert made.status_code == 201, made.text
    return made.json()


def test_a_corrected_sentence_comes_out_right_and_general_ones_as_before(
    client: TestClient, settings: Settings
) -> None:
    said = wav(mini_stores.said(SAID))
    others = [wav(mini_stores.said(text)) for text in GENERAL]
    before = translate(client, said)
    general = [translate(client, each)["text"] for each in others]
    assert before["text"] != RIGHT
    for store in ("corrections", "parliament"):  # of its own, and over one that lies on disk
        kept = correct(client, before, store=store)
        assert translate(client, said, stores=store)["text"] == RIGHT
        assert translate(client, said)["text"] == RIGHT
        assert [translate(client, each)["text"] for each in others] == general
        assert translate(client, said, stores="none")["text"] != RIGHT
        listed = client.get("/v1/corrections", params={"store": store}).json()["data"]
        assert [(each["id"], each["text"], each["source"]) for each in listed] == [
            (kept["id"], RIGHT, "corrections by anyone")
        ]
        if store == "corrections":
            assert client.delete(f"/v1/corrections/{kept['id']}").status_code == 204
            assert translate(client, said)["text"] == before["text"]
    # The explanation names the store, and shows the correction.
    (segment,) = translate(client, said, stores="parliament", explain="true")["segments"]
    assert segment["explanation"]["text"] == segment["text"] == RIGHT
    (neighbour, *_) = segment["explanation"]["words"][0]["evidence"]
    assert (neighbour["store"], neighbour["source"]) == ("parliament", "corrections by anyone")
    assert neighbour["target_text"] == RIGHT


def test_corrections_survive_a_restart_and_a_new_version_of_their_store(made: Path, settings: Settings) -> None:
    said = wav(mini_stores.said(SAID))
    with serving(settings) as client:
        library = client.app.state.npda.library  # pyright: ignore[reportAttributeAccessIssue]
        publish(library, made, "1")
        before = translate(client, said, stores="mine")
        correct(client, before, store="mine")
        publish(library, made, "2")
        assert translate(client, said, stores="mine")["text"] == RIGHT
    with serving(settings) as client:
        assert translate(client, said, stores="mine")["text"] == RIGHT
        removed = client.delete("/v1/corrections", params={"store": "mine", "user": "anyone"})
        assert removed.json() == {"removed": 1}
        assert translate(client, said, stores="mine")["text"] == before["text"]


def publish(library: Any, made: Path, version: str) -> None:
    folder = library.versions / version / "mine"
    shutil.copytree(made / "stores" / "parliament", folder)
    library.publish("mine", folder)


def test_a_sentence_that_is_corrected_again_gets_the_later_text(client: TestClient) -> None:
    said = wav(mini_stores.said(SAID))
    answer = translate(client, said)
    correct(client, answer)
    again = translate(client, said)
    later = "Heute früh nahm der Ausschuss den Antrag an."
    correct(client, again, later)
    assert translate(client, said)["text"] == later
    assert len(client.get("/v1/corrections").json()["data"]) == 1


def test_a_recording_is_corrected_sentence_by_sentence(client: TestClient) -> None:
    pause = np.zeros(24_000, np.float32)
    said = wav(np.concatenate([pause, mini_stores.said(GENERAL[0]), pause, mini_stores.said(SAID), pause]))
    assert len(translate(client, said)["segments"]) == 2
    fields = {"text": RIGHT, "store": "corrections", "heard": SAID}
    files = {"file": ("talk.wav", said)}
    refused = client.post("/v1/corrections", files=files, data=fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "segment")
    made = client.post("/v1/corrections", files=files, data={**fields, "segment": "1"})
    assert (made.status_code, made.json()["heard"]) == (201, SAID)
    assert translate(client, said)["segments"][1]["text"] == RIGHT
