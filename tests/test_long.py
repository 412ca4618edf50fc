"""Long recordings through the translator and the command line, with a random model that takes four seconds."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tiny
import tiny_store
from typer.testing import CliRunner

from npda import audio
from npda.cli import app
from npda.corpus.manifest import Utterance, write_manifest
from npda.corpus.synthesis import Espeak
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.io.errors import InputError
from npda.segmentation import Pauses, Stretch, gathered, stretches
from npda.segmentation.detectors import Loudness
from npda.translator import Translator

SHORT = SearchOptions(beam=2, max_length=12)
LIMIT = 4.0


def _model(**changes):
    return tiny.backbone(max_source_positions=round(100 * LIMIT), **changes)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(_model().eval())


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model")
    _model().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    """talk.flac: 8 sentences, some longer than the model takes; short.wav: one; silence.wav: none in 6 s."""
    folder = tmp_path_factory.mktemp("recordings")
    espeak = Espeak()
    texts = [
        "Yes, we are here.",
        "The committee has adopted the report on the situation in all the member states today.",
    ]
    pause = np.zeros(12_000, np.float32)
    spoken = [piece for number in range(8) for piece in (pause, espeak.speak(texts[number % 2], rate=150 + number))]
    talk = np.concatenate([*spoken, pause])
    soundfile.write(folder / "talk.flac", np.stack([talk, talk], axis=1), audio.SAMPLE_RATE)
    soundfile.write(folder / "short.wav", espeak.speak(texts[0]), audio.SAMPLE_RATE)
    soundfile.write(folder / "silence.wav", np.zeros(6 * audio.SAMPLE_RATE), audio.SAMPLE_RATE)
    return folder


@pytest.fixture
def by_loudness(monkeypatch) -> None:
    """Most tests need not wait for silero-vad."""
    monkeypatch.setattr("npda.segmentation.detectors.has_silero", lambda: False)


def npda(*arguments: object):
    return CliRunner().invoke(app, [*map(str, arguments), "--beam", "2", "--max-length", "12"])


def test_segments_are_what_the_model_says_of_each_stretch(translator, recordings):
    """One by one, without the translator's batches and groups."""
    path = recordings / "talk.flac"
    found = list(translator.translate_long(path, SHORT, detector=Loudness()))
    pieces = list(stretches(path, Pauses(longest=LIMIT - 0.5), Loudness()))
    assert len(found) == len(pieces) > 8
    for segment, piece in zip(found, pieces, strict=True):
        assert (segment.start, segment.end) == (piece.start, piece.end)
        alone = translator.translate(piece.samples, SHORT)
        assert segment.text == alone.text
        assert segment.score == pytest.approx(alone.score, abs=1e-4)
        assert segment.nbest == ()


def test_a_datastore_has_its_say(recordings, tmp_path):
    translator = Translator(tiny_store.backbone())
    store = Datastore.build(translator, pairs=[("yes", "Der Boden ist schön.")], path=tmp_path / "store")
    path = recordings / "talk.flac"
    fusion = translator.neighbours([store], KnnOptions(4, 0.9, 10.0))
    alone = translator.translate_long(path, SHORT, detector=Loudness())
    by_store = translator.translate_long(path, SHORT, datastore=store, k=4, lambda_=0.9, detector=Loudness())
    by_fusion = translator.translate_long(path, SHORT, fusions=[fusion], detector=Loudness())
    texts = [[segment.text for segment in segments] for segments in (alone, by_store, by_fusion)]
    assert texts[0] != texts[1] == texts[2]


def test_translation_begins_before_the_recording_ends(translator, monkeypatch):
    """Five minutes of speech are gathered at most."""
    monkeypatch.setattr("npda.translator._LONG_WINDOW", 10.0)
    speech = np.random.default_rng(0).normal(scale=0.1, size=2 * audio.SAMPLE_RATE).astype(np.float32)

    def endless(_path):
        for _ in range(8):
            yield np.concatenate([speech, np.zeros(audio.SAMPLE_RATE, np.float32)])
        raise AssertionError("the reader ran ahead")

    monkeypatch.setattr(audio, "stream", endless)
    found = translator.translate_long("endless.wav", SHORT, detector=Loudness())
    starts = [next(found).start for _ in range(5)]
    assert starts == pytest.approx([0, 3, 6, 9, 12], abs=0.1)


def test_what_was_heard_before_a_fault_comes_first():
    def breaking():
        yield Stretch(0, 1, np.zeros(16_000, np.float32))
        yield Stretch(1, 2, np.zeros(16_000, np.float32))
        yield Stretch(2, 3, np.zeros(16_000, np.float32))
        raise InputError("breaks off")

    groups = gathered(breaking(), 2)
    assert [[stretch.start for stretch in next(groups)] for _ in range(2)] == [[0, 1], [2]]
    with pytest.raises(InputError, match="breaks off"):
        next(groups)


def test_subtitles_of_a_long_recording(directory, recordings, tmp_path):
    answer = npda("translate", recordings / "talk.flac", "--model", directory, "-f", "srt", "-o", tmp_path / "talk.srt")
    assert answer.exit_code == 0, answer.output
    assert re.search(r"talk\.flac lasts \d+ s: cut at its pauses, found by (silero-vad|loudness)\.", answer.stderr)
    cues = (tmp_path / "talk.srt").read_text().removesuffix("\n\n").split("\n\n")
    times = []
    for number, cue in enumerate(cues, 1):
        first, second, *text = cue.split("\n")
        assert first == str(number)
        assert 1 <= len(text) <= 2
        match = re.fullmatch(r"(\d\d):(\d\d):(\d\d),(\d{3}) --> (\d\d):(\d\d):(\d\d),(\d{3})", second)
        assert match
        hours = [int(part) for part in match.groups()]
        times.append(tuple(3600 * h + 60 * m + s + t / 1000 for h, m, s, t in (hours[:4], hours[4:])))
    assert len(times) >= 6
    assert all(start < end for start, end in times)
    assert all(a[1] <= b[0] for a, b in pairwise(times))
    assert times[-1][1] <= audio.duration(recordings / "talk.flac")


@pytest.mark.usefixtures("by_loudness")
def test_short_and_long_files_keep_their_order(directory, recordings, tmp_path):
    files = [recordings / name for name in ("short.wav", "talk.flac", "silence.wav", "short.wav")]
    answer = npda("translate", *files, "--model", directory, "-f", "json")
    assert answer.exit_code == 0, answer.stderr
    assert "silence.wav: there is no speech in it." in answer.stderr
    first, talk, silence, last = map(json.loads, answer.stdout.splitlines())
    assert [Path(one["id"]).name for one in (first, talk, silence, last)] == [file.name for file in files]
    assert first["segments"] == last["segments"]
    assert first["segments"][0]["start"] == 0
    assert len(talk["segments"]) > 8
    assert npda("translate", *files[1:3], "--model", directory, "--quiet").stderr == ""
    assert silence["segments"] == []
    answer = npda("translate", *files, "--model", directory, "-f", "tsv", "--output-dir", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"short.tsv", "short-2.tsv", "talk.tsv", "silence.tsv"}
    rows = [line.split("\t")[1:3] for line in (tmp_path / "talk.tsv").read_text().splitlines()[1:]]
    assert rows == [[str(round(1000 * s[side])) for side in ("start", "end")] for s in talk["segments"]]


@pytest.mark.usefixtures("by_loudness")
def test_a_row_of_a_manifest_stays_a_line(directory, recordings, tmp_path):
    names = ("short.wav", "talk.flac", "short.wav")
    rows = [Utterance(str(number), str(recordings / name), 100, "x") for number, name in enumerate(names)]
    write_manifest(tmp_path / "test.tsv", rows)
    lines = npda("translate", tmp_path / "test.tsv", "--model", directory).stdout.splitlines()
    assert len(lines) == 3
    talk = npda("translate", recordings / "talk.flac", "--model", directory).stdout.splitlines()
    assert lines[1] == " ".join(line for line in talk if line)
    assert len(talk) > 8


@pytest.mark.usefixtures("by_loudness")
def test_never_and_always(directory, recordings):
    never = npda("translate", recordings / "talk.flac", "--model", directory, "--segment", "never")
    assert never.exit_code == 2
    assert "takes at most 4 s" in never.stderr
    assert never.stdout == "\n"
    always = npda("translate", recordings / "short.wav", "--model", directory, "--segment", "always", "-f", "json")
    assert always.exit_code == 0
    (segment,) = json.loads(always.stdout)["segments"]
    assert 0 <= segment["start"] < segment["end"] <= audio.duration(recordings / "short.wav") + 0.001


@pytest.mark.usefixtures("by_loudness")
def test_a_recording_that_breaks_off_is_translated_up_to_there(directory, recordings, tmp_path, monkeypatch):
    whole = audio.stream

    def breaking(path):
        blocks = whole(path)
        yield next(blocks)
        yield next(blocks)
        raise InputError(f"{path} cannot be read as audio")

    (tmp_path / "broken.wav").write_bytes(b"RIFF but not really")
    talk = recordings / "talk.flac"
    monkeypatch.setattr(audio, "stream", breaking)
    answer = npda("translate", talk, tmp_path / "broken.wav", "--model", directory, "-f", "json", "--segment", "always")
    assert answer.exit_code == 2
    kept, broken = map(json.loads, answer.stdout.splitlines())
    assert 10 < kept["segments"][-1]["end"] <= 20
    assert broken["segments"] == []
    assert re.search(r"skipped from \d+ s on: .*talk.flac cannot be read", answer.stderr)
    assert "broken.wav cannot be read" in answer.stderr


def test_an_unknown_language_leaves_nothing_behind(recordings, tmp_path):
    _model(languages=("de", "fr")).save_pretrained(tmp_path / "model")
    how = ["--model", tmp_path / "model", "--language", "xx", "-o", tmp_path / "out" / "talk.vtt"]
    answer = npda("translate", recordings / "talk.flac", *how)
    assert isinstance(answer.exception, InputError)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
