"""Logs tell what happened, not what was said: no word of the speech, of a text that was sent, or of a key."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import serving_fakes
from fastapi.testclient import TestClient

from npda.serving.app import create_app
from npda.serving.logs import write_json_logs
from npda.serving.settings import Key, Settings

SAID = "Satz"  # in everything the engine translates
KEY = "a-very-secret-word"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All logs, as `npda serve` writes them."""
    names = ("", "npda", "uvicorn")
    before = [(list(logging.getLogger(name).handlers), logging.getLogger(name).level) for name in names]
    stream = io.StringIO()
    write_json_logs(stream)
    yield stream
    for name, (handlers, level) in zip(names, before, strict=True):
        logging.getLogger(name).handlers[:] = handlers
        logging.getLogger(name).setLevel(level)


def client_of(tmp_path, log_content: bool) -> TestClient:
    settings = Settings({"mini": tmp_path}, tmp_path / "data", keys=(Key("anna", KEY),), log_content=log_content)
    app = create_app(settings, serving_fakes.FakeEngine(), serving_fakes.FakeLibrary())
    return TestClient(app, headers={"Authorization": f"Bearer {KEY}"})


def talk(client: TestClient) -> None:
    """What holds something private, right and wrong."""
    audio = serving_fakes.wav(1)
    ask = "/v1/audio/translations"
    assert client.post(ask, files={"file": ("private.wav", audio)}, data={"model": "mini"}).status_code == 200
    assert "data:" in client.post(ask, files={"file": audio}, data={"model": "mini", "stream": "true"}).text
    for file, fields in (
        (audio, {"model": "private"}),
        (audio, {"model": "mini", "stores": "private"}),
        (audio, {"model": "mini", "prompt": "private", "private": "private"}),
        (b"private words", {"model": "mini"}),
        (audio, {"model": "mini", "terms": '[["private", "privat"]]'}),
    ):
        assert client.post(ask, files={"file": ("private.wav", file)}, data=fields).is_client_error
    assert client.get("/v1/private?word=private").status_code == 404
    assert client.get("/v1/models", headers={"Authorization": "Bearer private"}).status_code == 401


def test_logs_hold_nothing_of_what_was_said_or_sent(tmp_path, log):
    with client_of(tmp_path, log_content=False) as client:
        talk(client)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    for word in (SAID, "private", "privat", KEY):
        assert word not in log.getvalue()
    answered = [line for line in lines if line["message"] == "request"]
    assert len(answered) == 9
    assert all(line["request"].startswith("req_") and line["seconds"] >= 0 for line in answered)
    translated = [line for line in lines if line["message"] == "translated"]
    assert [(line["user"], line["model"], line["audio"]) for line in translated] == [("anna", "mini", 1.0)] * 2


def test_what_was_said_is_logged_where_that_is_asked_for(tmp_path, log):
    with client_of(tmp_path, log_content=True) as client:
        talk(client)
    assert SAID in log.getvalue()
    for word in ("privat", KEY):
        assert word not in log.getvalue()
