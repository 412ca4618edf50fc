"""Voices by name, text read aloud into manifests, and datastores of text that was spoken and heard."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tiny_store
import typer
from typer.testing import CliRunner

from npda.audio import frame_count, load
from npda.cli.build import build
from npda.cli.inspect import inspect
from npda.cli.synthesize import synthesize as synthesize_verb
from npda.corpus import recording
from npda.corpus.manifest import read_manifest
from npda.corpus.pairs import Pair, write_pairs
from npda.corpus.recording import synthesize
from npda.corpus.synthesis import Espeak
from npda.corpus.voices import PicoVoice, PiperVoice, voice
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.io.sealed import read_sealed

QUIET = BuildOptions(progress=False, chunk=4)

app = typer.Typer()
for verb in (build, inspect):
    app.command()(verb)
app.command("synthesize")(synthesize_verb)


def npda(*arguments: object) -> str:
    """What a verb prints on standard output; its errors are raised."""
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


class Counting:
    """A voice that counts what it is asked for: a tone as long as the text, no sound for dots."""

    name, language = "counting", "en"

    def __init__(self, fail_at: int | None = None) -> None:
        self.asked: list[str] = []
        self._fail_at = fail_at

    def speak(self, text: str) -> np.ndarray:
        if len(self.asked) == self._fail_at:
            raise KeyboardInterrupt
        self.asked.append(text)
        length = 0 if text == "…" else 2_000 + 400 * len(text)
        return (0.3 * np.sin(np.arange(length) * (0.05 + 0.001 * (sum(map(ord, text)) % 97)))).astype(np.float32)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a program written in Python on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name: str, body: str) -> None:
        path = folder / name
        path.write_text(f"#!{sys.executable}\nimport sys, soundfile, numpy\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    return install


def test_espeak_by_name_is_espeak():
    spoken = voice("espeak:en-gb@250")
    np.testing.assert_array_equal(
        spoken.speak("the floor is yours"), Espeak().speak("the floor is yours", "en-gb", 250)
    )
    assert (spoken.name, spoken.language) == ("espeak:en-gb@250", "en")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("festival:en", "There is no voice 'festival:en': espeak:en-us"),
        ("espeak", "There is no voice 'espeak'"),
        ("espeak:xx-yy", "espeak-ng has no voice 'xx-yy'"),
        ("espeak:en-us@quick", "words a minute"),
        ("espeak:en-us@20", "rate of 80 to 450"),
        ("pico:nl-NL", "pico speaks en-US"),
        ("pico:de-DE", "install it .*libttspico-utils"),
        ("piper:none.onnx", "there is no file none.onnx"),
    ],
)
def test_a_voice_that_is_not_there_is_refused_with_a_remedy(name, says, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=says):
        voice(name)


def test_piper_without_piper(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    for name in ("m.onnx", "m.onnx.json"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="pip install piper-tts"):
        voice(f"piper:{tmp_path / 'm.onnx'}")


def test_pico_is_called_with_language_file_and_plain_text(program):
    program(
        "pico2wave",
        "language, _, text = sys.argv[2], *sys.argv[5:]\n"
        "assert sys.argv[5] == '--' and '<' not in text and language == 'de-DE', sys.argv\n"
        "soundfile.write(sys.argv[4], numpy.full(len(text) * 100, .5), 16000)",
    )
    spoken = PicoVoice("de-DE").speak("-guten <Tag>")
    assert len(spoken) == 1200
    assert spoken[0] == pytest.approx(0.5, abs=1e-3)


def test_piper_is_called_without_noise_and_its_rate_is_brought_to_ours(program, tmp_path):
    program(
        "piper",
        "options = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "assert options['--noise_scale'] == options['--noise_w'] == '0'\n"
        "assert sys.stdin.read() == 'zwei Zeilen\\n'\n"
        "soundfile.write(options['--output_file'], numpy.zeros(22050), 22050)",
    )
    for name in ("m.onnx", "m.onnx.json"):
        (tmp_path / name).touch()
    assert len(PiperVoice(str(tmp_path / "m.onnx")).speak("zwei\nZeilen")) == 16_000


def test_a_program_that_fails_is_quoted(program):
    program("pico2wave", "sys.exit('no such lingware')")
    with pytest.raises(InputError, match="failed to speak \\(no such lingware\\)"):
        PicoVoice("de-DE").speak("guten Tag")


def test_a_manifest_says_what_was_said(tmp_path):
    pairs = [Pair("the floor", "das Wort", "a", "de"), Pair("…", "…", "b"), Pair("the floor", "der Boden", "a")]
    speaker = Counting()
    made = synthesize(pairs, speaker, tmp_path / "out", "dev", progress=False)
    assert (made.sentences, made.silent) == (2, 1)
    first, second = read_manifest(made.manifest, check_audio=True)
    assert (first.id, first.tgt_text, first.src_text, first.tgt_lang) == ("a", "das Wort", "the floor", "de")
    assert (first.speaker, first.src_lang) == ("counting", "en")
    assert (second.id, second.audio) == ("dev-000003", first.audio)
    heard = load(first.audio)
    np.testing.assert_allclose(heard, speaker.speak("the floor"), atol=1e-4)
    assert first.n_frames == frame_count(len(heard))


def test_interrupted_speaking_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "cores", lambda: 1)
    pairs = tiny_store.pairs(20)
    with pytest.raises(KeyboardInterrupt):
        synthesize(pairs, Counting(fail_at=7), tmp_path / "out", "dev", progress=False)
    assert not (tmp_path / "out" / "dev.tsv").exists()
    there = len(list((tmp_path / "out" / "audio").iterdir()))
    speaker = Counting()
    made = synthesize(pairs, speaker, tmp_path / "out", "dev", progress=False)
    assert len(speaker.asked) == len({pair.src_text for pair in pairs}) - there
    assert made.sentences == 20


def test_a_text_of_dots_alone_is_an_error(tmp_path):
    with pytest.raises(InputError, match="made no sound of any of the 1 sentences"):
        synthesize([Pair("…", "…")], Counting(), tmp_path, "dots", progress=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model that can hear and cannot read."""
    directory = tmp_path_factory.mktemp("model")
    backbone = tiny_store.backbone()
    backbone.text_encoder = None
    backbone.save_pretrained(directory)
    return directory


def test_spoken_keys_are_those_of_the_recordings(model, tmp_path):
    """One way is `npda build --speak`, the other `npda synthesize` and `npda build --speech`: the same bytes."""
    text, one, other = tmp_path / "domain.tsv", tmp_path / "one", tmp_path / "other"
    write_pairs(text, tiny_store.pairs(6))
    built = json.loads(
        npda("build", "--model", model, "--text", text, "--speak", "espeak:en-us", "--out", one, "--json")
    )
    (source,) = built["sources"]
    assert (source["kind"], source["voice"], built["kinds"]) == ("spoken", "espeak:en-us", ["spoken"])
    assert "spoken (espeak:en-us)" in npda("inspect", one, "--verify")
    assert not list(tmp_path.rglob("*.flac"))

    made = json.loads(npda("synthesize", text, "--voice", "espeak:en-us", "--out", tmp_path / "audio", "--json"))
    assert (made["sentences"], made["silent"]) == (6, 0)
    npda("build", "--model", model, "--speech", made["manifest"], "--out", other)
    for name in ("keys.npy", "values.npy", "texts.bin"):
        assert (one / "shards/00000" / name).read_bytes() == (other / "shards/00000" / name).read_bytes()


def test_audio_is_kept_when_asked_for(model, tmp_path):
    write_pairs(tmp_path / "domain.tsv", tiny_store.pairs(3))
    keep = tmp_path / "kept"
    arguments = ("--text", tmp_path / "domain.tsv", "--speak", "espeak:en-us", "--keep-audio", keep)
    npda("build", "--model", model, *arguments, "--out", tmp_path / "store")
    utterances = read_manifest(keep / "domain.tsv", check_audio=True)
    assert [u.src_text for u in utterances] == [pair.src_text for pair in tiny_store.pairs(3)]


@pytest.mark.parametrize("arguments", [("--speech", "x.tsv", "--speak", "espeak:en-us"), ("--keep-audio", "kept")])
def test_speaking_needs_text(arguments, model, tmp_path):
    with pytest.raises(InputError, match="--speak reads text aloud"):
        npda("build", "--model", model, *arguments, "--out", tmp_path / "store")


def test_an_interrupted_spoken_build_gives_the_same_bytes(tmp_path):
    backbone = tiny_store.backbone()
    pairs = [*tiny_store.pairs(10), Pair("…", "…")]

    def run(path: Path, speaker: Counting) -> Datastore:
        return Datastore.build_from(backbone, Source("s", pairs, "spoken", voice=speaker), path, QUIET)

    whole = run(tmp_path / "whole", Counting())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "again", Counting(fail_at=6))
    rest = Counting()
    again = run(tmp_path / "again", rest)
    # The first chunk of four was finished.
    assert not {pair.src_text for pair in pairs[:4]} & {*rest.asked} - {pair.src_text for pair in pairs[4:]}
    assert again.digest == whole.digest
    (source,) = again.info.sources
    assert (source.sentences, source.skipped, source.voice) == (10, 1, "counting")
    files = sorted(path.relative_to(whole.path) for path in whole.path.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again.path) for path in again.path.rglob("*") if path.is_file())
    for file in files:
        assert (whole.path / file).read_bytes() == (again.path / file).read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".building")]


def test_a_store_that_names_no_voice_keeps_its_digest(tmp_path):
    """Stores of before there were voices have no such field; their signature stays."""
    store = Datastore.build(tiny_store.backbone(), tiny_store.pairs(2), tmp_path / "store", options=QUIET)
    path = tmp_path / "store" / "datastore.json"
    content = read_sealed(path)
    for source in content["sources"]:
        del source["voice"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert Datastore.open(tmp_path / "store").digest == store.digest


def test_the_clip_is_16_bit_flac(tmp_path):
    synthesize([Pair("the floor", "das Wort")], Counting(), tmp_path, "x", progress=False)
    (clip,) = (tmp_path / "audio").iterdir()
    found = soundfile.info(clip)
    assert (found.format, found.subtype, found.samplerate) == ("FLAC", "PCM_16", 16_000)
