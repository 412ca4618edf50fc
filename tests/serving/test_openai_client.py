"""The official client of OpenAI's API against the server: what it asks for and how it reads what it gets."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mini_stores
import openai
import pytest
import serving_fakes
import tiny_whisper
from openai import OpenAI
from serving_fakes import listening

from npda.demo.model import SHIPPED
from npda.serving.app import create_app
from npda.serving.settings import Key, Settings
from npda.translator import Translator

CLIPS = sorted((Path(__file__).parents[1] / "fixtures" / "version-0.1.0" / "clips").iterdir())
CLIP = CLIPS[0]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.from_pretrained(SHIPPED)


@pytest.fixture(scope="module")
def client(tmp_path_factory, translator) -> Iterator[OpenAI]:
    """Of a server with the mini model, a store of its own, and a Whisper model that can write down what it hears."""
    folder = tmp_path_factory.mktemp("served")
    mini_stores.store(translator, folder / "stores" / "parliament", mini_stores.parliament())
    tiny_whisper.backbone(4, None, seconds=5).save_pretrained(folder / "whisper")
    models = {"mini": SHIPPED, "whisper": folder / "whisper"}
    settings = Settings(models, folder / "data", folder / "stores", device="cpu")
    with listening(create_app(settings)) as url, OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def translated(client: OpenAI, **fields: Any) -> Any:
    return client.audio.translations.create(**{"model": "mini", "file": CLIP, **fields})


def transcribed(client: OpenAI, **fields: Any) -> Any:
    return client.audio.transcriptions.create(**{"model": "whisper", "file": CLIP, "language": "de", **fields})


def test_a_translation_is_what_the_translator_says(client, translator):
    for clip in CLIPS:
        alone = translated(client, file=clip, extra_body={"stores": "none"})
        assert alone.text == translator.translate(str(clip)).text
        with clip.open("rb") as file:
            assert translated(client, file=file, model="mini+none").text == alone.text
    assert translated(client, file=("talk.flac", CLIP.read_bytes())).text == translated(client).text


def test_every_format_says_the_same(client):
    text = translated(client).text
    assert translated(client, response_format="json").text == text
    assert translated(client, response_format="text").strip() == text
    _, times, *lines = translated(client, response_format="srt").splitlines()
    assert " ".join(lines).strip() == text
    assert translated(client, response_format="vtt").startswith("WEBVTT\n")
    verbose = translated(client, response_format="verbose_json")
    (segment,) = verbose.segments
    assert (verbose.text, verbose.language, segment.text) == (text, "german", text)
    assert 0 <= segment.start < segment.end <= verbose.duration
    shown = [float(seconds.replace(",", ".")) for seconds in re.findall(r"00:00:(\S+)", times)]
    assert shown == pytest.approx([segment.start, segment.end], abs=0.001)
    assert math.isfinite(segment.avg_logprob)
    assert len(segment.tokens) > 1


def test_a_store_is_chosen_by_field_or_by_name(client, translator):
    clip = CLIPS[1]
    base, named = (translated(client, file=clip, model=f"mini+{name}").text for name in ("none", "parliament"))
    assert named != base
    for fields in ({"stores": ["parliament"]}, {"stores": "parliament"}, {"stores": '["parliament"]'}):
        assert translated(client, file=clip, extra_body=fields).text == named
    assert translated(client, file=clip, extra_body={"stores": ["parliament"], "lambda": 0.0}).text == base
    (segment,) = translated(client, file=clip, model="mini+auto", response_format="verbose_json").segments
    assert set(segment.stores) == {"parliament"}


def test_explanations_come_with_the_words(client):
    found = translated(client, model="mini+parliament", response_format="verbose_json", extra_body={"explain": True})
    (segment,) = found.segments
    assert segment.explanation["tokens"]
    assert found.request_id.startswith("req_")


def test_models_are_listed(client):
    listed = {model.id: model for model in client.models.list()}
    assert set(listed) == {"mini", "mini+parliament", "whisper"}
    assert all(model.object == "model" and model.owned_by == "npda" for model in listed.values())
    assert client.models.retrieve("mini+parliament").id == "mini+parliament"
    assert client.models.retrieve("whisper-1").id == "whisper-1"
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.models.retrieve("gpt-4o")


def test_a_transcript(client):
    text = transcribed(client).text
    assert text
    assert transcribed(client, response_format="text").strip() == text.strip()
    verbose = transcribed(client, response_format="verbose_json", timestamp_granularities=["segment"])
    assert (verbose.text, verbose.language) == (text, "german")
    assert verbose.usage.type == "duration"
    assert verbose.usage.seconds == pytest.approx(verbose.duration)
    assert transcribed(client, chunking_strategy="auto", temperature=0).text == text
    assert transcribed(client, language="German").text == text


def test_a_transcript_is_streamed(client):
    events = list(transcribed(client, stream=True))
    *deltas, done = events
    assert {event.type for event in deltas} == {"transcript.text.delta"}
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in deltas) == done.text == transcribed(client).text
    assert done.usage.output_tokens > 0
    assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens
    assert done.logprobs is None


def test_log_probabilities_are_of_the_text(client):
    found = transcribed(client, include=["logprobs"])
    assert "".join(one.token for one in found.logprobs) == found.text
    assert all(one.logprob <= 0 for one in found.logprobs)
    assert bytes(int(byte) for one in found.logprobs for byte in one.bytes).decode() == found.text
    *deltas, done = transcribed(client, include=["logprobs"], stream=True)
    assert [one.logprob for event in deltas for one in event.logprobs] == [one.logprob for one in done.logprobs]
    assert translated(client, extra_body={"include": ["logprobs"]}).logprobs


def test_a_translation_is_streamed(client):
    """The client's translations have no `stream`; what it sends by hand is read by its own events."""
    events = client.post(
        "/audio/translations",
        cast_to=object,
        body={"model": "mini", "stream": True},
        files=[("file", ("talk.flac", CLIP.read_bytes()))],
        options={"headers": {"Content-Type": "multipart/form-data"}},
        stream=True,
        stream_cls=openai.Stream[Any],
    )
    *deltas, done = list(events)
    assert "".join(event["delta"] for event in deltas) == done["text"] == translated(client).text


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"timestamp_granularities": ["word"], "response_format": "verbose_json"}, "timestamp_granularities"),
        ({"timestamp_granularities": ["segment"]}, "timestamp_granularities"),
        ({"include": ["logprobs"], "response_format": "verbose_json"}, "include"),
        ({"response_format": "diarized_json"}, "response_format"),
        ({"stream": True, "response_format": "srt"}, "response_format"),
        ({"keywords": ["one"]}, "keywords"),
        ({"languages": ["de", "en"]}, "languages"),
        ({"known_speaker_names": ["Anna"]}, "known_speaker_names"),
        ({"known_speaker_references": ["data:audio/wav;base64,AAAA"]}, "known_speaker_references"),
        ({"chunking_strategy": {"type": "server_vad"}}, "chunking_strategy"),
        ({"language": "Klingon"}, "language"),
        ({"language": "fr"}, "language"),  # which the model does not know
        ({"model": "mini", "language": "en"}, "model"),  # which only translates
        ({"temperature": 3}, "temperature"),
        ({"extra_body": {"beam": 3}}, "beam"),
        ({"extra_body": {"k": 0}}, "k"),
        ({"extra_body": {"target_language": "en"}}, "target_language"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_a_sentence(client, fields, param):
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        transcribed(client, **fields)
    error = caught.value
    assert (error.status_code, error.param, error.type) == (422, param, "invalid_request_error")
    assert isinstance(error.body, dict)
    assert error.body["message"].endswith(".")
    assert error.request_id is not None


def test_what_is_ignored_is_said(client):
    raw = client.audio.translations.with_raw_response.create(model="mini", file=CLIP, prompt="hello", temperature=0.5)
    assert raw.headers["X-Ignored"] == "prompt, temperature"
    assert raw.parse().text == translated(client).text


@pytest.mark.parametrize(
    ("fields", "kind", "code"),
    [
        ({"model": "gpt-4o"}, openai.NotFoundError, "model_not_found"),
        ({"model": "mini+nothing"}, openai.NotFoundError, "store_not_found"),
        ({"model": "whisper+parliament"}, openai.UnprocessableEntityError, None),
        ({"file": ("talk.wav", b"")}, openai.UnprocessableEntityError, "empty"),
    ],
)
def test_faults_have_the_classes_of_the_client(client, fields, kind, code):
    with pytest.raises(kind) as caught:
        translated(client, **fields)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("file", "status", "code"),
    [
        (b"no sound at all", 415, "no_audio"),
        (serving_fakes.wav(3), 413, "too_long"),
        (b"0" * 300_000, 413, "too_large"),
    ],
)
def test_what_is_no_recording_has_its_status(tmp_path, file, status, code):
    settings = Settings({"mini": tmp_path}, tmp_path / "data", max_upload=200_000, max_seconds=2)
    app = create_app(settings, serving_fakes.FakeEngine(), serving_fakes.FakeLibrary())
    with listening(app) as url, OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            translated(client, file=("talk.wav", file))
        assert (caught.value.status_code, caught.value.code) == (status, code)


def test_keys_are_the_client_s_api_keys(tmp_path):
    settings = Settings({"mini": tmp_path}, tmp_path / "data", keys=(Key("anna", "correct-horse"),))
    app = create_app(settings, serving_fakes.FakeEngine(), serving_fakes.FakeLibrary())
    with listening(app) as url:
        good, bad = (OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) for key in ("correct-horse", "wrong"))
        assert translated(good, file=("a.wav", serving_fakes.wav(1))).text == "Satz 0."
        for ask in (lambda: translated(bad, file=("a.wav", serving_fakes.wav(1))), bad.models.list):
            with pytest.raises(openai.AuthenticationError) as caught:
                ask()
            assert caught.value.code == "invalid_api_key"


def test_a_busy_server_is_asked_again(tmp_path):
    """The client waits as Retry-After says, and tries again."""
    engine = serving_fakes.FakeEngine()
    app = create_app(Settings({"mini": tmp_path}, tmp_path / "data"), engine, serving_fakes.FakeLibrary())
    with listening(app) as url, OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        engine.busy = True
        with pytest.raises(openai.InternalServerError) as caught:
            translated(client, file=("a.wav", serving_fakes.wav(1)))
        assert caught.value.status_code == 503
        assert caught.value.response.headers["Retry-After"] == "3"
        assert json.loads(caught.value.response.text)["error"]["code"] == "busy"
        engine.busy, engine.refuses = False, 1
        patient = client.with_options(max_retries=2)
        assert translated(patient, file=("a.wav", serving_fakes.wav(1))).text == "Satz 0."
        assert (engine.refuses, engine.begun) == (0, 1)
