"""What may be named as audio on the command line: files of any kind, folders, manifests, standard input."""

import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import said
import soundfile
import tiny
from command_line import npda
from containers import encode

from npda.corpus.manifest import Utterance, write_manifest
from npda.io.errors import InputError
from npda.recordings import audio_inputs

SPEECH = said.speech(24_000)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    tiny.backbone().save_pretrained(directory)
    return directory


def test_a_folder_gives_its_audio_files_sorted(tmp_path):
    wanted = ["a.WAV", "b/talk.m4a", "b/z/talk.webm", "c.mp4"]
    for name in [*wanted, "notes.txt", "rows.tsv", "README", ".hidden.wav", ".cache/x.wav", "b/._talk.m4a", "wav"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [one.file for one in audio_inputs([str(tmp_path)])] == [str(tmp_path / name) for name in wanted]
    # With a slash at the end, and beside files.
    found = [one.name for one in audio_inputs(["first.wav", f"{tmp_path / 'b'}/", "last.m4a"])]
    assert found == ["first.wav", str(tmp_path / "b" / "talk.m4a"), str(tmp_path / "b" / "z" / "talk.webm"), "last.m4a"]


def test_a_folder_without_audio_has_its_sentence(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=rf"There is no audio in the folder {tmp_path}"):
        list(audio_inputs([str(tmp_path)]))


def test_standard_input_is_read_once_and_not_from_a_terminal(monkeypatch):
    with pytest.raises(InputError, match="only once"):
        list(audio_inputs(["-", "-"]))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(InputError, match="is a terminal; pipe a file"):
        list(audio_inputs(["-"]))


def test_standard_input_is_named_so(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(b"no audio")))
    (given,) = audio_inputs(["-"])
    assert given.name == "stdin"
    assert given.seconds is None
    assert Path(given.file).read_bytes() == b"no audio"
    assert given.renamed(f"{given.file} cannot be read") == "stdin cannot be read"


def test_translate_every_kind_of_input(model, tmp_path):
    """An m4a gives one translation, whichever way it is named."""
    folder = tmp_path / "talks"
    (folder / "later").mkdir(parents=True)
    talk = encode(folder / "talk.m4a", SPEECH, 16_000)
    encode(folder / "later" / "video.mkv", SPEECH, 16_000, pictures=True)
    (folder / "broken.webm").write_bytes(b"not a webm")
    write_manifest(tmp_path / "rows.tsv", [Utterance("a", f"{talk}:0:16000", 98, "Satz")])
    options = ("--model", model, "-f", "json", "--beam", 1, "--max-length", 8)
    with open(talk, "rb") as stdin:
        answer = npda("translate", "-", folder, tmp_path / "rows.tsv", *options, stdin=stdin)
    assert answer.returncode == 2, answer.stderr
    (complaint,) = [line for line in answer.stderr.splitlines() if "skipped" in line]
    assert f"{folder / 'broken.webm'} cannot be read as audio" in complaint
    results = [json.loads(line) for line in answer.stdout.splitlines()]
    names = ["stdin", f"{folder / 'broken.webm'}", f"{folder / 'later' / 'video.mkv'}", f"{talk}", f"{talk}:0:16000"]
    assert [result["id"] for result in results] == names
    piped, broken, video, named, row = (result["segments"] for result in results)
    scores = [segments[0].pop("score") for segments in (piped, named)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)  # in batches of others, rounding differs
    assert piped == named
    assert not broken
    assert video[0]["end"] == pytest.approx(1.5, abs=0.1)
    assert row[0]["end"] == 1.0


def test_garbage_on_standard_input_is_named_and_leaves_nothing_behind(model, tmp_path):
    (tmp_path / "garbage").write_bytes(b"no audio at all")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with open(tmp_path / "garbage", "rb") as stdin:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        answer = npda("translate", "-", "--model", model, "-f", "json", stdin=stdin, env=environment)
    assert answer.returncode == 2
    assert "npda: skipped: stdin cannot be read as audio" in answer.stderr
    assert not [path for path in temporary.iterdir() if path.name.startswith("npda-")]


def test_standard_input_in_a_folder_of_outputs(model, tmp_path):
    soundfile.write(tmp_path / "a.flac", SPEECH, 16_000)
    with open(tmp_path / "a.flac", "rb") as stdin:
        answer = npda("translate", "-", "--model", model, "-f", "srt", "--output-dir", tmp_path / "out", stdin=stdin)
    assert answer.returncode == 0, answer.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["stdin.srt"]
