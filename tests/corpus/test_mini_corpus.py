"""The embedded corpus on disk: made once, whole, the same from the same seed. A few sentences stand for all."""

import hashlib
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from npda.audio import fbank, load
from npda.corpus.manifest import read_manifest
from npda.corpus.mini import Mini, prepare, speech, version
from npda.corpus.mini.grammar import SPLITS, VERSION, sentences
from npda.corpus.pairs import read_pairs
from npda.io.errors import InputError

SENTENCES = 4


def few(domain: str, split: str, language: str, seed: int):
    return sentences(domain, split, language, seed)[:SENTENCES]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(speech, "sentences", few)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Mini:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speech, "sentences", few)
        return prepare(directory=tmp_path_factory.mktemp("mini") / "corpus", progress=False)


def contents(directory: Path) -> dict[str, str]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_split_has_speech_and_text(corpus):
    for domain, split in SPLITS:
        pairs = few(domain, split, "de", 0)
        utterances = read_manifest(corpus.manifest(domain, split), check_audio=True)
        assert read_pairs(corpus.text(domain, split)) == pairs
        for pair, utterance in zip(pairs, utterances, strict=True):
            assert (utterance.id, utterance.src_text, utterance.tgt_text) == (pair.id, pair.src_text, pair.tgt_text)
            assert (utterance.src_lang, utterance.tgt_lang) == ("en", "de")
            assert utterance.audio == str(corpus.directory / domain / split / f"{pair.id}.flac")
            assert utterance.n_frames == len(fbank(load(utterance.audio)))
            assert utterance.speaker in speech.VOICES


def test_speech_is_short_and_audible(corpus):
    heard = [read_manifest(corpus.manifest(*key)) for key in SPLITS]
    frames = [utterance.n_frames for utterances in heard for utterance in utterances]
    assert 60 < np.mean(frames) < 150
    assert len({utterance.speaker for utterances in heard for utterance in utterances}) > 1
    for utterances in heard:
        assert 0.02 < np.sqrt((load(utterances[0].audio) ** 2).mean()) < 0.5


def test_the_version_stands_for_this_speech(corpus):
    """Where this fails the sentences are read differently: raise grammar.VERSION, then write the new digest here."""
    said = [(u.id, u.speaker, u.n_frames) for key in SPLITS for u in read_manifest(corpus.manifest(*key))]
    assert (VERSION, hashlib.sha256(str(said).encode()).hexdigest()[:16]) == ("5", "8fd620b201c890af")


def test_recordings_of_version_0_1_0_are_found_again(monkeypatch):
    assert version() == "9eadd099"
    monkeypatch.setattr(metadata, "version", lambda _: "0.2.5")
    assert version() not in ("9eadd099", "")


def test_the_second_time_nothing_is_made(corpus, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in corpus.directory.rglob("*")}
    monkeypatch.setattr(speech, "record", None)
    assert prepare(directory=corpus.directory) == corpus
    assert {path: path.stat().st_mtime_ns for path in corpus.directory.rglob("*")} == before


def test_splits_can_be_made_one_after_the_other(corpus, tmp_path):
    wanted = [("parliament", "test"), ("general", "dev")]
    some = prepare(directory=tmp_path / "some", progress=False, only=wanted)
    assert set(SPLITS) - set(some.missing()) == set(wanted)
    assert prepare(directory=some.directory, progress=False, only=wanted[:1]) == some
    assert not some.manifest("general", "train").exists()
    prepare(directory=some.directory, progress=False)
    assert contents(some.directory) == contents(corpus.directory)
    assert os.listdir(tmp_path) == ["some"]


def test_the_same_seed_gives_the_same_bytes(corpus, tmp_path):
    again = prepare(directory=tmp_path / "again", progress=False)
    assert contents(again.directory) == contents(corpus.directory)


def test_seed_and_language_choose_the_corpus(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("NPDA_CACHE", str(tmp_path))
    other, french = prepare(seed=1, progress=False), prepare("fr", progress=False)
    assert other.directory.parent == tmp_path / "mini"
    assert other.directory.name.endswith("-de-1")
    assert french.directory.name.endswith("-fr-0")
    key = ("parliament", "test")
    assert read_pairs(other.text(*key)) != read_pairs(corpus.text(*key))
    # French has the English speech of German, byte for byte.
    theirs, ours = contents(french.directory), contents(corpus.directory)
    assert {n: h for n, h in theirs.items() if n.endswith(".flac")} == {
        n: h for n, h in ours.items() if n.endswith(".flac")
    }
    assert theirs["parliament/test.tsv"] != ours["parliament/test.tsv"]


def test_voices_depend_on_the_seed(corpus, tmp_path, monkeypatch):
    """The same sentences under another seed: the sentences are held, the voices change."""
    monkeypatch.setattr(speech, "sentences", lambda domain, split, language, seed: few(domain, split, language, 0))
    other = prepare(seed=7, directory=tmp_path / "other", progress=False)
    keys = [("general", "train"), ("general", "dev"), ("general", "test")]
    ours = [u.speaker for key in keys for u in read_manifest(corpus.manifest(*key))]
    theirs = [u.speaker for key in keys for u in read_manifest(other.manifest(*key))]
    assert ours != theirs


def test_a_failure_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyError("no breath")

    monkeypatch.setattr(speech, "write_pairs", fail)
    with pytest.raises(KeyError):
        prepare(directory=tmp_path / "corpus", progress=False)
    with pytest.raises(InputError, match="klingon"):
        prepare("klingon", directory=tmp_path / "corpus", progress=False)
    assert os.listdir(tmp_path) == []


def test_a_directory_of_something_else_is_refused(corpus, tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match="is not the embedded corpus"):
        prepare(directory=tmp_path)
    with pytest.raises(InputError, match="another language, seed or version"):
        prepare(seed=1, directory=corpus.directory)
    (tmp_path / "empty").mkdir()
    assert prepare(directory=tmp_path / "empty", progress=False).manifest("general", "dev").is_file()


def test_two_processes_at_once(corpus, tmp_path):
    program = (
        "import sys\n"
        "from npda.corpus import mini\n"
        "from npda.corpus.mini import speech, grammar\n"
        f"speech.sentences = lambda *which: grammar.sentences(*which)[:{SENTENCES}]\n"
        "mini.prepare(directory=sys.argv[1], progress=False)\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "corpus"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert contents(tmp_path / "corpus") == contents(corpus.directory)
    assert os.listdir(tmp_path) == ["corpus"]


def test_the_corpus_is_known_without_heavy_imports():
    program = "import sys, npda.corpus.mini; sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'yaml')))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
