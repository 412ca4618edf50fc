"""Stores made beside translations, with the model that comes with npda and everything a server has."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mini_stores
import numpy as np
import pytest
import soundfile
from fastapi.testclient import TestClient
from held_engine import assert_alike

from npda.corpus.leakage import LeakageFilter
from npda.corpus.pairs import Pair
from npda.datastore.source import Source
from npda.datastore.store import Datastore
from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.serving.stores.tuning import hold_out
from npda.translator import Translator

PATIENCE = 400.0  # seconds after which something hangs


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mini_stores.model(tmp_path_factory.mktemp("mini") / "model")


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.from_pretrained(model)


@pytest.fixture
def client(model: Path, tmp_path: Path) -> Iterator[TestClient]:
    settings = Settings({"mini": model}, tmp_path / "data")
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def floor() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, mini_stores.said(mini_stores.FLOOR), 16_000, format="WAV")
    return file.getvalue()


def house(count: int) -> list[Pair]:
    """Sentences of parliament in which the floor is given."""
    floors = [pair for pair in mini_stores.parliament(2_000) if "floor" in pair.src_text][: count - 1]
    return [*floors, Pair(mini_stores.FLOOR, "Sie haben das Wort.")]


def send(client: TestClient, to: str, pairs: list[Pair], **data: str) -> dict[str, Any]:
    content = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs).encode()
    answer = client.post(to, files={"file": ("t.tsv", content)}, data=data)
    assert answer.status_code == 202, answer.text
    return answer.json()


def ended(client: TestClient, job: dict[str, Any]) -> list[float]:
    """Wait for a job to be done. → how far it was each time that somebody looked"""
    until, seen = time.monotonic() + PATIENCE, []
    while time.monotonic() < until:
        found = client.get(f"/v1/jobs/{job['id']}").json()
        seen.append(found["progress"])
        if found["state"] not in ("queued", "running"):
            assert (found["state"], found["error"]) == ("done", None)
            return seen
        time.sleep(0.05)
    raise TimeoutError


def ask(client: TestClient, floor: bytes, stores: str) -> str:
    data = {"model": "mini", "stores": stores}
    answer = client.post("/v1/audio/translations", files={"file": ("f.wav", floor)}, data=data)
    return answer.json().get("text", answer.text)


def test_a_store_is_made_and_replaced_while_people_translate(
    client: TestClient, floor: bytes, translator: Translator, tmp_path: Path
):
    alone = ask(client, floor, "none")
    ended(client, send(client, "/v1/stores", house(60), name="house"))
    with_store = ask(client, floor, "house")
    assert ("Wort" in alone, "Wort" in with_store) == (False, True)
    # Nothing but the text makes the keys, whoever else computes meanwhile.
    made = Datastore.open(tmp_path / "data" / "stores" / "house")
    expected = Datastore.build_from(translator, Source("house", house(60)), tmp_path / "expected", mini_stores.QUIET)
    assert_alike(made, expected)
    answers: list[str] = []
    stop = threading.Event()

    def people() -> None:
        while not stop.is_set():
            answers.append(ask(client, floor, "house"))

    threads = [threading.Thread(target=people) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        ended(client, send(client, "/v1/stores/house/sources", mini_stores.parliament(20, "dev"), source="more"))
        ended(client, client.delete("/v1/stores/house/sources/more").json())
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert len(answers) >= 3
    assert all("Wort" in answer for answer in answers), set(answers)
    assert client.get("/metrics").text.count("\nnpda_jobs_ended_total") == 3
    # Old versions are gone with their last readers.
    until = time.monotonic() + PATIENCE
    while len(list((tmp_path / "data" / "versions").iterdir())) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(list((tmp_path / "data" / "versions").iterdir())) == 1


def test_a_store_of_enough_sentences_is_tuned_behind_its_gate(client: TestClient, floor: bytes):
    seen = ended(client, send(client, "/v1/stores", house(150), name="house"))
    assert seen == sorted(seen)
    card = client.get("/v1/stores/house").json()["card"]
    assert (card["tuned"]["way"], card["tuned"]["guarded"]) == ("text", True)
    assert card["tuned"]["keys"] == client.get("/v1/stores/house").json()["keys"]
    assert 20 <= card["tuned"]["sentences"] <= 30
    assert card["gain"]["bleu"] >= card["gain"]["base_bleu"]
    assert card["harm"]["sentences"] == 40
    assert "Wort" in ask(client, floor, "auto")


def test_what_is_tuned_on_is_hidden_with_all_that_gives_it_away(translator: Translator, tmp_path: Path):
    pairs = [*mini_stores.parliament(150), *mini_stores.parliament(30)]  # some of them twice
    store = Datastore.build_from(translator, Source("twice", pairs), tmp_path / "twice", mini_stores.QUIET)
    found = hold_out(store)
    assert found is not None
    drawn = {(pair.src_text, pair.tgt_text) for pair in found.sentences}
    assert len(drawn) == len(found.sentences)
    hidden = {(entry.source_text, entry.target_text) for entry in map(store.neighbour_info, found.hidden.tolist())}
    leakage = LeakageFilter(found.sentences)
    assert drawn <= hidden
    assert hidden == {(pair.src_text, pair.tgt_text) for pair in pairs if leakage.find(pair) is not None}
    shown = np.setdiff1d(np.arange(len(store)), found.hidden)
    left = {(entry.source_text, entry.target_text) for entry in map(store.neighbour_info, shown.tolist())}
    assert not left & hidden
    few = Datastore.build_from(translator, Source("few", pairs[:60]), tmp_path / "few", mini_stores.QUIET)
    assert hold_out(few) is None
