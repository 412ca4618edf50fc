"""Stores of keys computed elsewhere: the same as a built store, streamed, and refused with a sentence."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_store
from typer.testing import CliRunner

from npda.cli import app
from npda.corpus.pairs import Pair
from npda.datastore import arrays
from npda.datastore.retrieval.protocol import Entry
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.io.errors import InputError

QUIET = BuildOptions(progress=False)
WITH_INDEX = BuildOptions(progress=False, index="IVF8,SQ8", nprobe=8)
PAIRS = tiny_store.pairs(50)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def built(model, tmp_path_factory) -> Datastore:
    options = BuildOptions(progress=False, chunk=20, index=WITH_INDEX.index, nprobe=WITH_INDEX.nprobe)
    return Datastore.build(model, PAIRS, tmp_path_factory.mktemp("stores") / "s", "first", options)


def entries(store: Datastore) -> dict[str, Any]:
    """What a built store holds, as one array each; sentences are numbered through."""
    shards = store.entries.shards
    before = np.cumsum([0, *(shard.info.sentences for shard in shards)])
    return {
        "keys": np.concatenate([shard.keys for shard in shards]),
        "values": np.concatenate([shard.values for shard in shards]),
        "sentence_ids": np.concatenate([s.sentences + n for s, n in zip(shards, before, strict=False)]),
        "positions": np.concatenate([shard.positions for shard in shards]),
    }


def everything(store: Datastore) -> list[Entry]:
    return [store.neighbour_info(id_) for id_ in range(len(store))]


@pytest.mark.parametrize("shard_keys", [1, 40, 10**6])
def test_the_keys_of_a_built_store_give_the_same_neighbours(model, built, tmp_path, monkeypatch, shard_keys):
    monkeypatch.setattr(arrays, "SHARD_KEYS", shard_keys)
    store = Datastore.from_arrays(
        **entries(built), model=model, path=tmp_path / "s", sentences=PAIRS, source="first", options=WITH_INDEX
    )
    verify(store.path, progress=False)
    assert len(store.info.shards) == {1: 50, 10**6: 1}.get(shard_keys, len(store.info.shards))
    assert store.fingerprint == built.fingerprint
    assert everything(store) == everything(built)
    queries = np.random.default_rng(0).normal(size=(30, store.dim)).astype(np.float32)
    ours, theirs = store.search(queries, 8), built.search(queries, 8)
    for name in ("distances", "values", "ids"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert os.listdir(tmp_path) == ["s"]


def test_a_store_of_arrays_belongs_to_its_model_and_grows(model, built, tmp_path):
    given = entries(built)
    # Positions count from 0 in every sentence of a build, so that they need not be given; float32 is rounded.
    given = {"keys": given["keys"].astype(np.float32), "values": given["values"], "sentence_ids": given["sentence_ids"]}
    pairs = [(pair.src_text, pair.tgt_text) for pair in PAIRS]
    store = Datastore.from_arrays(
        **given, model=built.fingerprint, path=tmp_path / "s", sentences=pairs, source="first", options=QUIET
    )
    assert everything(store) == everything(built)
    Datastore.open(store.path, model)
    with pytest.raises(InputError, match="another model"):
        Datastore.open(store.path, tiny_store.backbone(seed=5))
    grown = store.append(model, Source("more", tiny_store.pairs(5, seed=1)), QUIET)
    assert len(grown) > len(store)
    assert [s.name for s in grown.info.sources] == ["first", "more"]
    assert everything(grown.remove("more")) == everything(built)


def test_without_sentences_every_key_stands_alone(model, built, tmp_path):
    given = entries(built)
    store = Datastore.from_arrays(given["keys"], given["values"], model, tmp_path / "s", options=QUIET)
    assert [store.neighbour_info(id_) for id_ in (0, 7)] == [
        Entry("", "", 0, int(given["values"][id_]), "arrays") for id_ in (0, 7)
    ]
    assert store.entries.sentence_range(3) == (3, 4)
    (source,) = store.info.sources
    assert (source.sentences, source.keys) == (0, len(store))
    shown = CliRunner().invoke(app, ["inspect", str(store.path), "--verify"])
    assert shown.exit_code == 0
    assert "arrays" in shown.output


def test_languages_are_those_of_the_sentences(built, tmp_path):
    keys = np.zeros((2, built.dim), np.float16)
    two = [Pair("a", "b", tgt_lang="de"), Pair("a", "b")]

    def languages(name: str, language: str | None, **given) -> tuple[str, ...]:
        options = BuildOptions(progress=False, language=language)
        return Datastore.from_arrays(
            keys, [1, 2], built.fingerprint, tmp_path / name, options=options, **given
        ).info.languages

    assert languages("a", "fr", sentence_ids=[0, 1], sentences=two) == ("de", "fr")
    assert languages("b", None, sentence_ids=[0, 1], sentences=two) == ()
    assert languages("c", "fr") == ("fr",)


def good(count: int = 6, dim: int = 32) -> dict:
    return {
        "keys": np.ones((count, dim), np.float32),
        "values": np.arange(count),
        "sentence_ids": np.arange(count) // 2,
        "positions": np.arange(count) % 2,
        "sentences": [("a", "b")] * (count // 2),
    }


def replaced(array: np.ndarray, place, value) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("keys", lambda a: a[0], "keys must be [n, dim] with at least one key, not [32]."),
        ("keys", lambda a: a[:0], "not [0, 32]."),
        ("keys", lambda a: a[:, :31], "keys have 31 dimensions, the model's decoder states have 32."),
        ("keys", lambda a: a.astype(np.float64), "keys must be float16 or float32, not float64."),
        ("keys", lambda a: replaced(a, (4, 3), np.nan), "keys[4] holds NaN or infinity."),
        ("keys", lambda a: replaced(a, (5, 0), -np.inf), "keys[5] holds NaN or infinity."),
        ("keys", lambda a: replaced(a, (4, 3), 1e5), "keys[4] does not fit into float16"),
        ("values", lambda a: a[:5], "values must be [6], one for every key, not [5]."),
        ("values", lambda a: a.astype(np.float32), "values must be integers, not float32."),
        ("values", lambda a: replaced(a, 5, 50), "values[5] is not a token of the vocabulary, which has 0 … 49."),
        ("values", lambda a: replaced(a, 3, -1), "values[3] is not a token"),
        ("sentence_ids", lambda a: a[::-1], "sentence_ids must not fall, as they do at row 2: sort."),
        ("sentence_ids", lambda a: replaced(a, 5, 3), "sentence_ids[5] is negative, or there is no such sentence."),
        ("sentence_ids", lambda a: a - 1, "sentence_ids[0] is negative"),
        ("sentence_ids", lambda a: None, "positions and sentences need sentence_ids"),
        ("positions", lambda a: a * 0, "positions must rise within a sentence, as they do not at row 1."),
        ("positions", lambda a: a + 2**20, "positions[0] is not within 0 … 1048575."),
        ("positions", lambda a: a - 1, "positions[0] is not within"),
        ("sentences", lambda s: [*s[:2], ("a", None)], "sentences[2] is not a pair of texts"),
        ("sentences", lambda s: [*s[:2], ("a", "\ud800")], "sentences[2] holds a lone surrogate"),
        ("source", lambda s: " ", "A source cannot be called ' '"),
        ("kind", lambda s: "dream", "The kind of a source is one of text, speech, glossary, spoken, not 'dream'."),
        ("options", lambda s: BuildOptions(index="nonsense", progress=False), "is not known to Faiss"),
    ],
)
@pytest.mark.parametrize("shard_keys", [2, 1000])
def test_wrong_arrays_are_refused_and_leave_nothing(tmp_path, monkeypatch, name, change, sentence, shard_keys):
    monkeypatch.setattr(arrays, "SHARD_KEYS", shard_keys)
    known = tiny_store.store_of(tmp_path / "known", [tiny_store.clustered(20)]).fingerprint
    given = {**good(), "source": "s", "kind": "text", "options": QUIET}
    given[name] = change(given[name])
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError) as error:
        Datastore.from_arrays(**given, model=known, path=tmp_path / "s")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == before


def test_nothing_is_overwritten(tmp_path):
    known = tiny_store.store_of(tmp_path / "known", [tiny_store.clustered(20)])
    with pytest.raises(InputError, match="already exists"):
        Datastore.from_arrays(**good(), model=known.fingerprint, path=known.path, options=QUIET)
    assert len(Datastore.open(known.path)) == 20


def test_a_store_that_does_not_verify_never_appears(tmp_path, monkeypatch):
    known = tiny_store.store_of(tmp_path / "known", [tiny_store.clustered(20)]).fingerprint

    def broken(store: Path, name: str, chunk):
        files = write(store, name, chunk)
        path = store / "shards" / name / "keys.npy"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1  # a disk that lies
        path.write_bytes(content)
        return files

    write = arrays.write_shard
    monkeypatch.setattr(arrays, "write_shard", broken)
    with pytest.raises(InputError, match="checksum"):
        Datastore.from_arrays(**good(), model=known, path=tmp_path / "s", options=QUIET)
    assert sorted(os.listdir(tmp_path)) == [".known.parts", "known"]


_KILLED = """
import sys, time
import numpy as np
from npda.datastore import arrays
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore

write, arrays.SHARD_KEYS = arrays.write_shard, 100

def slowly(store, name, chunk):
    if name == "00003":
        print("three shards are written", flush=True)
        time.sleep(600)
    return write(store, name, chunk)

arrays.write_shard = slowly
keys = np.load(sys.argv[2], mmap_mode="r")
model = Datastore.open(sys.argv[1]).fingerprint
Datastore.from_arrays(keys, np.zeros(len(keys), int), model, sys.argv[3], options=BuildOptions(progress=False))
"""


def test_a_killed_run_leaves_no_store_and_does_not_disturb_the_next(tmp_path):
    known = tiny_store.store_of(tmp_path / "known", [tiny_store.clustered(20)])
    keys = tiny_store.clustered(500)
    np.save(tmp_path / "keys.npy", keys)
    path = tmp_path / "out" / "s"
    command = [sys.executable, "-c", _KILLED, known.path, tmp_path / "keys.npy", path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("three shards")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not path.exists()
    store = Datastore.from_arrays(keys[:150], np.arange(150) % 50, known.fingerprint, path, options=QUIET)
    assert len(store) == 150
    assert os.listdir(path.parent) == ["s"]
    assert sorted(os.listdir(path / "shards")) == ["00000"]


def test_a_memory_map_is_read_shard_by_shard(tmp_path, monkeypatch):
    """No slice of the keys is larger than a shard, and each row is read once."""
    monkeypatch.setattr(arrays, "SHARD_KEYS", 64)
    known = tiny_store.store_of(tmp_path / "known", [tiny_store.clustered(20)]).fingerprint
    np.save(tmp_path / "keys.npy", tiny_store.clustered(1_000))

    class Watched(np.memmap):
        def __getitem__(self, rows):
            part = super().__getitem__(rows)
            if isinstance(rows, slice):
                read.append(len(part))
            return part

    read: list[int] = []
    options = BuildOptions(progress=False, index="IVF8,SQ8", nprobe=8, rerank=4)  # true distances
    keys = np.load(tmp_path / "keys.npy", mmap_mode="r").view(Watched)
    store = Datastore.from_arrays(keys, np.arange(1_000) % 50, known, tmp_path / "s", options=options)
    assert max(read) == 64
    assert sum(read) == 1_000
    found = store.search(np.asarray(keys[:5], dtype=np.float32), 1)
    np.testing.assert_array_equal(found.distances, np.zeros((5, 1)))
