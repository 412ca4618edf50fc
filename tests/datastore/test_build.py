"""Building: keys and values against the model asked sentence by sentence, and builds that are killed."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import faiss
import numpy as np
import pytest
import soundfile
import tiny_store
import torch
from store_bytes import contents

from npda import audio
from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.datastore import build as build_module
from npda.datastore.index.lists import write_index
from npda.datastore.shards import save_array
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.io.errors import InputError

QUIET = BuildOptions(progress=False, chunk=7)


@torch.inference_mode()
def entries_one_by_one(model, pair: Pair, language: str | None = None) -> tuple[np.ndarray, list[int]]:
    """Keys and values of one sentence, without batches or padding."""
    source = torch.tensor([model.source.encode(pair.src_text)])
    prompt = model.prompt(language)
    tokens = [*prompt, *model.target.encode(pair.tgt_text), model.target.eos]
    states = model.states(model.read(source, torch.tensor([source.shape[1]])), torch.tensor([tokens]))[0]
    predicting = range(len(prompt) - 1, len(tokens) - 1)
    return np.stack([states[t].numpy() for t in predicting]), tokens[len(prompt) :]


@pytest.mark.parametrize("language", [None, "de"])
def test_every_target_token_gets_the_state_that_predicts_it(tmp_path, language):
    model = tiny_store.backbone(languages=("de", "fr") if language else ())
    pairs = tiny_store.pairs(20)
    store = Datastore.build(
        model, pairs, tmp_path / "s", options=BuildOptions(progress=False, chunk=7, language=language)
    )
    id_ = 0
    for pair in pairs:
        keys, values = entries_one_by_one(model, pair, language)
        found = store.entries.keys(np.arange(id_, id_ + len(keys)))
        np.testing.assert_allclose(found, keys, atol=2e-3, rtol=2e-3)
        for position, value in enumerate(values):
            entry = store.neighbour_info(id_ + position)
            assert (entry.source_text, entry.target_text) == (pair.src_text, pair.tgt_text)
            assert (entry.position, entry.token, entry.source) == (position, value, "pairs")
        id_ += len(keys)
    assert len(store) == id_
    assert [shard.sentences for shard in store.info.shards] == [7, 7, 6]
    verify(store.path, progress=False)


def test_the_language_of_a_sentence_goes_before_the_option(tmp_path):
    model = tiny_store.backbone(languages=("de", "fr"))
    sentence = tiny_store.pairs(1)[0]
    french = Pair(sentence.src_text, sentence.tgt_text, tgt_lang="fr")
    store = Datastore.build(model, [french], tmp_path / "s", options=BuildOptions(progress=False, language="de"))
    np.testing.assert_allclose(
        store.entries.keys(np.arange(1)), entries_one_by_one(model, french, "fr")[0][:1], atol=2e-3
    )
    with pytest.raises(InputError, match="choose a language"):
        Datastore.build(model, [sentence], tmp_path / "t", options=QUIET)
    assert sorted(os.listdir(tmp_path)) == ["s"]


def test_tuples_and_a_translator_will_do(tmp_path):
    model = tiny_store.backbone()

    class Translator:
        backbone = model

    one = Datastore.build(Translator(), [("the floor", "das Wort")], tmp_path / "a", options=QUIET)
    two = Datastore.build(model, [Pair("the floor", "das Wort")], tmp_path / "b", options=QUIET)
    assert contents(one.path) == contents(two.path)


def test_speech_is_heard(tmp_path):
    model = tiny_store.backbone()
    random = np.random.default_rng(0)
    utterances = []
    for number, samples in enumerate((8_000, 20_000, 12_000)):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, random.normal(scale=0.1, size=samples), 16_000)
        utterances.append(Utterance(str(number), str(path), audio.frame_count(samples), f"Das Wort {number}"))
    utterances.append(Utterance("long", str(tmp_path / "none.wav"), model.max_frames + 1, "zu lang"))
    source = Source("talks", utterances, "speech")
    store = Datastore.build_from(model, source, tmp_path / "s", BuildOptions(progress=False))
    first = 0
    for utterance in utterances[:3]:
        features = torch.from_numpy(model.features(audio.load(utterance.audio)))
        tokens = [*model.prompt(), *model.target.encode(utterance.tgt_text), model.target.eos]
        with torch.inference_mode():
            memory = model.hear(features[None], torch.tensor([len(features)]))
            states = model.states(memory, torch.tensor([tokens[:-1]]))[0].numpy()
        np.testing.assert_allclose(
            store.entries.keys(np.arange(first, first + len(states))), states, atol=4e-3, rtol=4e-3
        )
        first += len(states)
    assert len(store) == first
    assert store.info.kinds == ("speech",)
    assert (store.info.sources[0].sentences, store.info.sources[0].skipped) == (3, 1)


def test_sentences_without_room_are_left_out_and_counted(tmp_path):
    model = tiny_store.backbone()
    endless = Pair("the floor", "aber " * model.max_target)
    store = Datastore.build(
        model, [endless, Pair("the floor", "das Wort"), Pair(" ", "leer")], tmp_path / "s", options=QUIET
    )
    assert (store.info.sources[0].sentences, store.info.sources[0].skipped) == (1, 2)
    with pytest.raises(InputError, match="no sentence that the model could take"):
        Datastore.build(model, [endless], tmp_path / "t", options=QUIET)
    with pytest.raises(InputError, match="already exists"):
        Datastore.build(model, [endless], tmp_path / "s", options=QUIET)


def test_an_unknown_index_is_refused_before_the_work(tmp_path):
    with pytest.raises(InputError, match="not known to Faiss"):
        Datastore.build(tiny_store.backbone(), tiny_store.pairs(3), tmp_path / "s", options=BuildOptions(index="IVX8"))
    assert os.listdir(tmp_path) == []


_OPTIONS = BuildOptions(index="IVF8,SQ8", chunk=100, progress=False)
_SCRIPT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import tiny_store
from npda.datastore.source import BuildOptions
from npda.datastore.encode import Encoder
from npda.datastore.store import Datastore

encode = Encoder.encode
def slowly(self, sentences):
    time.sleep(float(sys.argv[4]))
    return encode(self, sentences)
Encoder.encode = slowly
options = BuildOptions(index="IVF8,SQ8", chunk=int(sys.argv[5]), progress=False)
Datastore.build(tiny_store.backbone(), tiny_store.pairs(int(sys.argv[3])), sys.argv[2], options=options)
"""


def command(script: str, path: Path, pairs: int, pause: float, chunk: int) -> list[str]:
    here = str(Path(tiny_store.__file__).parent)
    return [sys.executable, "-c", script, here, str(path), str(pairs), str(pause), str(chunk)]


def test_a_killed_build_goes_on_to_the_same_bytes(tmp_path):
    whole, killed = tmp_path / "whole" / "s", tmp_path / "killed" / "s"
    model, pairs = tiny_store.backbone(), tiny_store.pairs(600)
    Datastore.build(model, pairs, whole, options=_OPTIONS)
    process = subprocess.Popen(command(_SCRIPT, killed, 600, 0.4, 100))
    records = killed.parent / ".s.building" / "records"
    deadline = time.monotonic() + 300
    while not (records.is_dir() and len(list(records.glob("0*.json"))) >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not killed.exists()
    shards = records.parent / "store" / "shards"
    finished = {path.name: path.stat().st_mtime_ns for path in shards.glob("0*")}
    finished = {name: time_ for name, time_ in finished.items() if (records / f"{name}.json").exists()}
    assert 2 <= len(finished) < 6

    Datastore.build(model, pairs, killed, options=_OPTIONS)
    assert contents(killed) == contents(whole)
    for name, written in finished.items():  # not made again
        assert (killed / "shards" / name).stat().st_mtime_ns == written
    assert os.listdir(killed.parent) == ["s"]
    verify(killed, progress=False)


@pytest.mark.parametrize("step", ["write_shard", "atomic_write", "build_index", "write_info"])
def test_a_build_that_fails_anywhere_goes_on_to_the_same_bytes(tmp_path, monkeypatch, step):
    model, pairs = tiny_store.backbone(), tiny_store.pairs(30)
    options = BuildOptions(index="IVF4,SQ8", chunk=7, progress=False)
    whole = Datastore.build(model, pairs, tmp_path / "whole", options=options)
    real, calls = getattr(build_module, step), []

    def failing(*arguments, **named):
        calls.append(1)
        if len(calls) == (2 if step in ("write_shard", "atomic_write") else 1):
            raise RuntimeError("power cut")
        return real(*arguments, **named)

    monkeypatch.setattr(build_module, step, failing)
    with pytest.raises(RuntimeError, match="power cut"):
        Datastore.build(model, pairs, tmp_path / "s", options=options)
    assert not (tmp_path / "s").exists()
    again = Datastore.build(model, pairs, tmp_path / "s", options=options)
    assert contents(again.path) == contents(whole.path)


def test_an_interrupted_build_does_not_mix_inputs_or_models(tmp_path, monkeypatch):
    model, pairs = tiny_store.backbone(), tiny_store.pairs(30)
    real = build_module.build_index

    def interrupt() -> None:
        monkeypatch.setattr(build_module, "build_index", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Datastore.build(model, pairs, tmp_path / "s", options=QUIET)
        monkeypatch.setattr(build_module, "build_index", real)

    interrupt()
    changed = [*pairs[:10], Pair("the door", "die Küche"), *pairs[11:]]
    store = Datastore.build(model, changed, tmp_path / "s", options=QUIET)
    assert contents(store.path) == contents(Datastore.build(model, changed, tmp_path / "a", options=QUIET).path)
    store.path.rename(tmp_path / "old")
    interrupt()
    other = tiny_store.backbone(seed=5)
    store = Datastore.build(other, pairs, tmp_path / "s", options=QUIET)
    assert contents(store.path) == contents(Datastore.build(other, pairs, tmp_path / "b", options=QUIET).path)


def test_two_builds_of_one_store_do_not_meet(tmp_path):
    model = tiny_store.backbone()

    def while_building():
        yield Pair("the floor", "das Wort")
        with pytest.raises(InputError, match="Another process is working"):
            Datastore.build(model, tiny_store.pairs(3), tmp_path / "s", options=QUIET)
        yield Pair("the door", "die Küche")

    assert Datastore.build(model, while_building(), tmp_path / "s", options=QUIET).info.sources[0].sentences == 2


_LARGE = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import tiny_store
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore

stream = (pair for seed in range(int(sys.argv[3])) for pair in tiny_store.pairs(2_000, seed))
options = BuildOptions(index="exact", chunk=2_000, progress=False)
Datastore.build(tiny_store.backbone(), stream, sys.argv[2], options=options)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_store(tmp_path):
    """Peak memory of a build of 12 chunks is that of 3, within a chunk's size.

    Without an index: training one takes a sample of the keys, which does grow, up to a million of them.
    """
    here, peaks = str(Path(tiny_store.__file__).parent), []
    for chunks in (3, 12):
        arguments = [sys.executable, "-c", _LARGE, here, str(tmp_path / str(chunks)), str(chunks)]
        peaks.append(int(subprocess.run(arguments, capture_output=True, check=True).stdout))
    assert peaks[1] - peaks[0] < 10_000  # KB


@pytest.mark.parametrize("lacking", [1, 100, 3_000])
def test_a_disk_that_takes_all_but_the_last_bytes(tmp_path, lacking: int):
    """C's buffers give them to the disk when a file is closed, and nobody hears that it had no room for them."""
    array = np.zeros(4_000, np.float32)
    index = faiss.IndexFlatL2(16)
    index.add(array.reshape(-1, 16))
    np.save(tmp_path / "whole.npy", array)
    faiss.write_index(index, str(tmp_path / "whole.faiss"))
    writers = {".npy": lambda path: save_array(path, array), ".faiss": lambda path: write_index(index, path)}
    for suffix, write in writers.items():
        whole = (tmp_path / f"whole{suffix}").read_bytes()
        write(tmp_path / f"x{suffix}")
        assert (tmp_path / f"x{suffix}").read_bytes() == whole
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) - lacking, before[1]))
        try:
            with pytest.raises(OSError, match="large"):
                write(tmp_path / f"y{suffix}")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
