"""What the page is made of, without a browser: its files, its policy, its strings, its example clips."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import soundfile
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from npda.audio import frame_count
from npda.corpus.manifest import Utterance
from npda.io.errors import InputError
from npda.serving.access import Access
from npda.serving.errors import Refusal
from npda.serving.examples import read_examples, write_examples
from npda.serving.routes.page import STATIC, router

CLIPS = Path(__file__).parents[1] / "fixtures" / "version-0.1.0" / "clips"
SCRIPTS = {path.relative_to(STATIC).as_posix(): path.read_text(encoding="utf-8") for path in STATIC.rglob("*.js")}


def client(examples: Path | None = None) -> TestClient:
    app = FastAPI()
    app.state.npda = SimpleNamespace(settings=SimpleNamespace(examples=examples), access=Access(()))
    app.include_router(router)
    app.exception_handler(Refusal)(lambda _, refusal: JSONResponse(refusal.body(), refusal.status))
    return TestClient(app)


def clips(folder: Path) -> Path:
    clip = CLIPS / "parliament-test-00004.flac"
    frames = frame_count(soundfile.info(clip).frames)
    said = Utterance(
        "parliament-test-00004", str(clip), frames, "Die Regierung …", "The cabinet …", "en-us", "en", "de"
    )
    write_examples(folder / "clips", {"parliament": [said], "general": []})
    return folder / "clips"


def test_the_page_may_run_and_ask_for_nothing_but_its_own():
    answer = client().get("/")
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", answer.text)


def test_every_file_is_there_with_its_type_and_known_again():
    http = client()
    for name in [path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()]:
        answer = http.get(f"/static/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert ("javascript" in answer.headers["content-type"]) == name.endswith(".js")
        again = http.get(f"/static/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["../routes/page.py", "..%2froutes%2fpage.py", "js", "js/", "%00", "nothing.js", "/etc/passwd"]
)
def test_no_name_leads_out_of_the_page(name: str):
    assert client().get(f"/static/{name}").status_code == 404


def test_nothing_comes_from_other_hosts():
    for path in STATIC.rglob("*"):
        if path.is_file():
            found = re.findall(r"(?:https?:|wss?:)?//[\w.-]+\.\w+", path.read_text(encoding="utf-8"))
            assert set(found) <= {"http://www.w3.org"}, path  # the name space of SVG


def test_scripts_import_what_is_there():
    for name, script in SCRIPTS.items():
        for wanted in re.findall(r'from "(.+?)"|new URL\("(.+?\.js)"', script):
            target = (STATIC / name).parent / (wanted[0] or wanted[1])
            assert target.is_file(), (name, wanted)


def strings(language: str) -> dict[str, str]:
    """Keys and texts, plural forms together; {names} of values included."""
    script = SCRIPTS[f"js/i18n/{language}.js"]
    return dict(re.findall(r'(\w+): ("(?:[^"\\]|\\.)*"|\{ one: .+?", other: .+?" \})', script))


def test_both_languages_have_every_string_with_the_same_values():
    english, german = strings("en"), strings("de")
    assert len(english) > 150
    assert list(english) == list(german)
    for key, text in english.items():
        assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", german[key])), key


def test_every_string_asked_for_is_there():
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    asked = set(re.findall(r'data-t(?:-label)?="(\w+)"', page))
    for script in SCRIPTS.values():
        asked |= set(re.findall(r'\bt\("(\w+)"', script))
    assert asked <= set(strings("en"))
    assert {"record", "whyTitle"} <= asked


def test_examples_are_listed_and_heard(tmp_path: Path):
    http = client(clips(tmp_path))
    (clip,) = http.get("/v1/examples").json()
    assert clip["transcript"] == "The cabinet …"
    assert (clip["domain"], clip["url"]) == ("parliament", "/examples/parliament-test-00004.flac")
    sound = http.get(clip["url"])
    assert sound.headers["content-type"] == "audio/flac"
    assert sound.content[:4] == b"fLaC"
    assert http.get("/examples/clips.json").status_code == 404
    assert http.get("/examples/..%2fclips.json").status_code == 404


def test_a_server_without_examples_has_none():
    assert client().get("/v1/examples").json() == []
    assert client().get("/examples/a.wav").status_code == 404


@pytest.mark.parametrize("file", ["../a.wav", "/etc/passwd", "a/b.wav", ".hidden", ""])
def test_a_list_of_clips_that_leads_elsewhere_is_refused(tmp_path: Path, file: str):
    (tmp_path / "clips.json").write_text(json.dumps([{"name": "a", "title": "A", "file": file}]))
    with pytest.raises(InputError, match=r"clips\.json is not a list of clips"):
        read_examples(tmp_path)
