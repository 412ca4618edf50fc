"""Endpoints over a fake engine: what is asked, what is answered, what is refused."""

import json
import math

import pytest
import serving_fakes
from fastapi.testclient import TestClient

from npda.serving.app import create_app
from npda.serving.settings import Key, Settings

Library = serving_fakes.FakeLibrary


@pytest.fixture
def engine():
    return serving_fakes.FakeEngine()


@pytest.fixture
def client(tmp_path, engine):
    settings = Settings({"mini": tmp_path / "none", "other": tmp_path / "no"}, tmp_path / "data", max_seconds=100)
    app = create_app(settings, engine, Library())
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def ask(client, where="translations", audio=None, **fields):
    file = serving_fakes.wav(3.0) if audio is None else audio
    return client.post(f"/v1/audio/{where}", files={"file": ("talk.wav", file)}, data={"model": "mini", **fields})


def test_a_recording_is_translated(client, engine, tmp_path):
    answer = ask(client)
    assert answer.status_code == 200
    assert answer.json() == {"text": "Satz 0. Satz 1.", "usage": {"type": "duration", "seconds": 3.0}}
    assert answer.headers["X-Request-Id"].startswith("req_")
    assert serving_fakes.left(tmp_path / "data") == []
    (way,) = engine.ways
    assert (way.model, way.stores, way.language) == ("mini", "auto", None)


def test_verbose_json_has_times_and_stores(client):
    found = ask(client, response_format="verbose_json").json()
    assert [(s["start"], s["end"], s["text"]) for s in found["segments"]] == [(0, 2, "Satz 0."), (2, 3, "Satz 1.")]
    assert found["segments"][0]["stores"] == {"parliament": 0.25}
    assert (found["task"], found["duration"], found["model"]) == ("translate", 3.0, "mini")


@pytest.mark.parametrize(
    ("format", "begins"),
    [("text", "Satz 0. Satz 1.\n"), ("srt", "1\n00:00:00,000 --> 00:00:02,000"), ("vtt", "WEBVTT")],
)
def test_texts_and_subtitles(client, format, begins):
    assert ask(client, response_format=format).text.startswith(begins)


def test_fields_reach_the_engine(client, engine):
    ask(
        client,
        model="whisper-1",
        stores='["koran"]',
        k="4",
        language="English",
        target_language="de",
        **{"lambda": "0.5"},
    )
    ask(client, model="mini+koran+parliament")
    ask(client, stores="none", prompt="hello", temperature="0.0")
    first, second, third = engine.ways
    assert (first.model, first.stores, first.source_language, first.language) == ("mini", ("koran",), "en", "de")
    assert (first.chosen.k, first.chosen.lambda_) == (4, 0.5)
    assert (second.stores, third.stores) == (("koran", "parliament"), ())


def test_what_is_ignored_is_said(client):
    assert ask(client, prompt="hello", temperature="0.5").headers["X-Ignored"] == "prompt, temperature"
    assert "X-Ignored" not in ask(client, temperature="0").headers


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "nothing"}, 404, "model"),
        ({"model": "mini+nothing"}, 404, "stores"),
        ({"model": "other+koran"}, 422, "stores"),
        ({"model": "mini+koran", "stores": "koran"}, 422, "stores"),
        ({"stores": "['koran"}, 422, "stores"),
        ({"stores": "[1]"}, 422, "stores"),
        ({"stores": "[" * 100_000}, 422, "stores"),
        ({"language": "Klingon"}, 422, "language"),
        ({"temperature": "nan"}, 422, "temperature"),
        ({"temperature": "1.5"}, 422, "temperature"),
        ({"temperature": "warm"}, 422, "temperature"),
        ({"response_format": "diarized_json"}, 422, "response_format"),
        ({"timestamp_granularities[]": "word", "response_format": "verbose_json"}, 422, "timestamp_granularities"),
        ({"timestamp_granularities[]": "segment"}, 422, "timestamp_granularities"),
        ({"include[]": "logprobs", "response_format": "text"}, 422, "include"),
        ({"include[]": "more"}, 422, "include"),
        ({"stream": "perhaps"}, 422, "stream"),
        ({"stream": "true", "response_format": "srt"}, 422, "response_format"),
        ({"explain": "true"}, 422, "explain"),
        ({"k": "0"}, 422, "k"),
        ({"k": "1.5"}, 422, "k"),
        ({"lambda": "2"}, 422, "lambda"),
        ({"terms": '[["one"]]'}, 422, "terms"),
        ({"terms[]": "one"}, 422, "terms"),
        ({"keywords[]": "one"}, 422, "keywords"),
        ({"best_of": "3"}, 422, "best_of"),
        ({"chunking_strategy": "none"}, 422, "chunking_strategy"),
        ({"terms": json.dumps([["a", "b"]])}, 422, "terms"),  # this server keeps none
    ],
)
def test_what_cannot_be_honoured_is_refused(client, tmp_path, fields, status, param):
    answer = ask(client, **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert error["message"].endswith(".")
    assert serving_fakes.left(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("audio", "status", "says"),
    [
        (b"", 422, "talk.wav is empty"),
        (b"no sound at all", 415, "talk.wav cannot be read as audio"),
        (serving_fakes.wav(0.01), 422, "too short"),
        (serving_fakes.wav(101), 413, "100 s at most"),
    ],
)
def test_what_is_no_recording_is_refused(client, audio, status, says):
    answer = ask(client, audio=audio)
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]


def test_a_stream_has_the_events_of_openai(client):
    answer = ask(client, stream="true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, end = [line[6:] for line in answer.text.splitlines() if line]
    first, second, done = map(json.loads, events)
    assert (first["type"], first["delta"], second["delta"]) == ("transcript.text.delta", "Satz 0.", " Satz 1.")
    assert (done["type"], done["text"], end) == ("transcript.text.done", "Satz 0. Satz 1.", "[DONE]")


def test_a_stream_may_explain_its_segments(client):
    lines = [line for line in ask(client, stream="true", explain="true", stores="none").text.splitlines() if line]
    deltas = [event for event in map(json.loads, (line[6:] for line in lines[:-1])) if "segment" in event]
    assert [(delta["segment"]["id"], delta["segment"]["explanation"]) for delta in deltas] == [(0, None), (1, None)]
    assert "explanation" not in ask(client, stream="true").text


def test_a_fault_in_a_stream_is_an_event(client, engine):
    engine.fails_at = 1
    lines = [json.loads(line[6:]) for line in ask(client, stream="true").text.splitlines() if line]
    assert lines[-1]["error"]["code"] == "timeout"
    engine.fails_at = 0
    assert ask(client, stream="true").status_code == 504


def test_a_full_queue_says_when_to_come_again(client, engine):
    engine.busy = True
    answer = ask(client)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")


def test_uploads_are_limited(tmp_path, engine):
    settings = Settings({"mini": tmp_path}, tmp_path / "data", max_upload=50_000)
    with TestClient(create_app(settings, engine, Library()), base_url="http://localhost") as client:
        assert ask(client, audio=serving_fakes.wav(1)).status_code == 200
        answer = ask(client, audio=serving_fakes.wav(2))
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert ask(client, audio=serving_fakes.wav(300)).status_code == 413
        answer = ask(client, prompt="x" * 2_000_000)
        assert answer.status_code == 413
        many = client.post("/v1/audio/translations", files=[("file", ("a", b"1")), ("file", ("b", b"2"))])
        assert many.status_code == 422
        assert serving_fakes.left(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "application/json"}, b"{}", 415),
        ({"Content-Type": "multipart/form-data"}, b"", 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"", 400),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\n\r\nno name\r\n--x--", 400),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--y", 400),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="file"; ',
            400,
        ),
        ({}, b"", 415),
    ],
)
def test_what_is_no_form_is_refused(client, tmp_path, headers, body, status):
    answer = client.post("/v1/audio/translations", headers=headers, content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].endswith(".")
    assert serving_fakes.left(tmp_path / "data") == []


def test_unknown_places_and_methods_are_refused_in_the_same_shape(client):
    assert client.get("/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    answer = client.get("/v1/audio/translations")
    assert (answer.status_code, answer.json()["error"]["param"]) == (405, None)


def test_models_are_listed_alone_and_with_their_stores(client):
    ids = [model["id"] for model in client.get("/v1/models").json()["data"]]
    assert ids == ["mini", "mini+koran", "mini+parliament", "other"]
    assert client.get("/v1/models/mini+koran").json()["npda"]["stores"] == ["koran"]
    assert client.get("/v1/models/mini+koran+parliament").status_code == 200
    assert client.get("/v1/models/whisper-1").json()["id"] == "whisper-1"
    assert client.get("/v1/models/mini+other").status_code == 404


def test_health_metrics_and_documents(client):
    ask(client)
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json()["status"] == "ready"
    figures = client.get("/metrics").text
    assert 'npda_requests_total{method="POST",route="/v1/audio/translations",status="200"} 1.0' in figures
    assert 'npda_request_seconds_count{phase="decode"} 1.0' in figures
    page = client.get("/docs")
    assert "/v1/audio/translations" in page.text
    assert "http" not in page.text
    assert "/v1/audio/translations" in client.get("/openapi.json").json()["paths"]


def test_what_was_translated_is_remembered(client):
    recent = client.app.state.npda.recent
    id = ask(client).headers["X-Request-Id"]
    kept = recent.get(id)
    assert len(kept.samples()) == 48_000
    assert len(kept.samples(1)) == 16_000
    assert math.isclose(abs(kept.samples()).max(), abs(kept.samples(0)).max(), rel_tol=0.5)


class TestKeys:
    @pytest.fixture
    def client(self, tmp_path, engine):
        keys = (Key("anna", "secret-a"), Key("bert", "secret-b", edits=False))
        settings = Settings({"mini": tmp_path}, tmp_path / "data", keys=keys)
        app = create_app(settings, engine, Library())
        with TestClient(app, base_url="http://anything") as client:
            yield client

    @pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "Basic secret-a", "Bearer secret-ä".encode()])
    def test_who_has_no_key_is_refused_before_sending_anything(self, client, header):
        headers = {"Authorization": header} if header else {}
        answer = client.post("/v1/audio/translations", headers=headers, content=b"x")
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert client.get("/v1/models", headers=headers).status_code == 401
        assert client.get("/metrics", headers=headers).status_code == 401
        assert client.get("/healthz").status_code == 200

    def test_both_keys_translate(self, client):
        for secret in ("secret-a", "secret-b"):
            client.headers["Authorization"] = f"Bearer {secret}"
            id = ask(client).headers["X-Request-Id"]
            assert client.app.state.npda.recent.get(id).user == {"a": "anna", "b": "bert"}[secret[-1]]

    def test_only_some_edit(self, client):
        from starlette.requests import Request

        from npda.serving.access import editing
        from npda.serving.errors import Refusal

        def connection(secret: str) -> Request:
            headers = [(b"authorization", f"Bearer {secret}".encode())]
            return Request({"type": "http", "app": client.app, "headers": headers})

        assert editing(connection("secret-a")).name == "anna"
        with pytest.raises(Refusal, match="not change stores") as refused:
            editing(connection("secret-b"))
        assert refused.value.status == 403


class TestOtherSites:
    def test_another_name_for_loopback_is_refused(self, client):
        for host in ("evil.example", "evil.example:8765", "localhost.evil.example"):
            answer = client.get("/v1/models", headers={"Host": host})
            assert (answer.status_code, answer.json()["error"]["code"]) == (421, "wrong_host")
        for host in ("localhost", "127.0.0.1:8765", "[::1]:8765", "127.0.0.2"):
            assert client.get("/v1/models", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://localhost:1234"}, 403),
            ({"Origin": "http://localhost"}, 200),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"}, 403),
            ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, 200),
            ({}, 200),
        ],
    )
    def test_a_page_of_another_site_changes_nothing(self, client, headers, status):
        client.headers.update(headers)
        assert ask(client).status_code == status

    def test_a_site_that_is_allowed(self, tmp_path, engine):
        settings = Settings({"mini": tmp_path}, tmp_path / "data", origins=("https://good.example",))
        with TestClient(create_app(settings, engine, Library()), base_url="http://localhost") as client:
            client.headers.update({"Origin": "https://good.example", "Sec-Fetch-Site": "cross-site"})
            answer = ask(client)
            assert answer.headers["Access-Control-Allow-Origin"] == "https://good.example"
            client.headers["Origin"] = "https://evil.example"
            answer = ask(client)
            assert answer.status_code == 403
            assert "Access-Control-Allow-Origin" not in answer.headers

    def test_every_answer_has_its_headers(self, client):
        for answer in (
            client.get("/v1/models"),
            client.get("/nothing"),
            client.get("/v1/models", headers={"Host": "x"}),
        ):
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Request-Id"].startswith("req_")


def test_other_machines_need_a_key(tmp_path, engine):
    from npda.io.errors import InputError

    for host in ("0.0.0.0", "192.168.1.2", "example.org", "::"):
        with pytest.raises(InputError, match="--api-key"):
            create_app(Settings({"mini": tmp_path}, tmp_path / "d", host=host), engine, Library())
        create_app(Settings({"m": tmp_path}, tmp_path / "d", host=host, open=True), engine, Library())
        keys = (Key("a", "b"),)
        create_app(Settings({"m": tmp_path}, tmp_path / "d", host=host, keys=keys), engine, Library())


def test_an_unexpected_error_is_a_sentence_and_tells_nothing(client, engine, monkeypatch):
    async def broken(*_):
        raise KeyError("a secret")

    monkeypatch.setattr(engine, "run", broken)
    answer = ask(client, where="transcriptions")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.json()["error"]["message"]
