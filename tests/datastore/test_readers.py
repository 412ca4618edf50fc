"""Readers beside writers: each has the version that it opened, whole, and what nobody reads goes."""

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tiny_store

from npda.datastore import checking
from npda.datastore.checking import Checking, files_of
from npda.datastore.compress import CompressOptions, compress
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.models.speech2text import Speech2Text

QUIET = BuildOptions(progress=False, chunk=20, index="IVF2,Flat")


@pytest.fixture(scope="module")
def model() -> Speech2Text:
    return tiny_store.backbone()


@pytest.fixture
def store(model: Speech2Text, tmp_path: Path) -> Path:
    return Datastore.build(model, tiny_store.pairs(60), tmp_path / "s", "one", QUIET).path


def answer(store: Datastore) -> list[np.ndarray]:
    queries = np.random.default_rng(0).normal(size=(5, store.dim)).astype(np.float32)
    found = store.search(queries, 3)
    return [found.distances, found.values, found.ids]


def folders(store: Path) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in [*store.glob("shards/*"), *store.glob("index-*")]}


def test_a_reader_that_is_starting_keeps_what_it_opened(model: Speech2Text, store: Path):
    """Between opening and the first search a source is added, one is removed, and another added: files stay."""
    expected = answer(Datastore.open(store))
    reader = Datastore.open(store)
    Datastore.open(store).append(model, Source("two", tiny_store.pairs(30, 1)), QUIET)
    middle = Datastore.open(store)
    Datastore.open(store).remove("one")
    Datastore.open(store).append(model, Source("three", tiny_store.pairs(30, 2)), QUIET)
    for now, before in zip(answer(reader), expected, strict=True):
        np.testing.assert_array_equal(now, before)
    assert [source.name for source in middle.info.sources] == ["one", "two"]
    answer(middle)
    assert middle.neighbour_info(0).source == "one"
    del reader, middle
    last = Datastore.open(store).remove("three")
    assert folders(store) == {f"shards/{shard.name}" for shard in last.info.shards} | {
        f"{store.name}/{last.info.index.directory}"
    }
    assert not list(store.glob(".held-*"))


def test_a_reader_in_another_process_is_respected_until_it_dies(model: Speech2Text, store: Path):
    program = (
        "import sys; from npda.datastore.store import Datastore\n"
        "store = Datastore.open(sys.argv[1]); print('open', flush=True)\n"
        "sys.stdin.readline(); store.ready(); print(len(store))"
    )
    for kill in (False, True):
        before = set(folders(store))
        count = len(Datastore.open(store))
        with subprocess.Popen(
            [sys.executable, "-c", program, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "open\n"
            Datastore.open(store).append(model, Source(f"two {kill}", tiny_store.pairs(30, 1)), QUIET)
            assert before < folders(store)
            if kill:
                reader.kill()
            output, _ = reader.communicate("go on\n" if not kill else None)
            assert output == ("" if kill else f"{count}\n")
        Datastore.open(store).with_distance_scale(1.0)
        Datastore.open(store).remove(f"two {kill}")
        assert len(list(store.glob("index-*"))) == 1


def test_nobody_sees_half_of_two_versions(model: Speech2Text, store: Path):
    """Readers open the store all the time while it changes; all that they see is one of the versions."""
    known: set[tuple[str, ...]] = {("one",), ("one", "two")}
    seen: set[tuple[str, ...]] = set()
    faults: list[Exception] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                opened = Datastore.open(store)
                seen.add(tuple(source.name for source in opened.info.sources))
                answer(opened)
                opened.neighbour_info(0)
            except Exception as error:
                faults.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for seed in range(3):
        Datastore.open(store).append(model, Source("two", tiny_store.pairs(20, seed)), QUIET)
        Datastore.open(store).remove("two")
    compress(Datastore.open(store), store.with_name("smaller"), CompressOptions(dim=8, progress=False))
    over.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert seen <= known


def test_what_a_killed_edit_left_goes_with_the_next_even_if_that_is_refused(model: Speech2Text, store: Path):
    """Killed when the new version was published, before the old one was cleared away."""
    shutil.copytree(store / "shards" / "00000", store / "shards" / "00009")
    shutil.copytree(store / "index-00000", store / "index-00009")
    (store / ".edit").mkdir()
    (store / ".edit" / "plan.json").write_text('{"remove": "x", "store": "an older one"}')
    before = set(folders(store))
    with pytest.raises(InputError, match="has no source 'x'"):
        Datastore.open(store).remove("x")
    assert folders(store) == before - {"shards/00009", f"{store.name}/index-00009"}
    assert not (store / ".edit").exists()
    left = store.with_name(f".{store.name}.building")
    (left / "records").mkdir(parents=True)
    with pytest.raises(InputError, match="already exists"):
        Datastore.build(model, tiny_store.pairs(60), store, "one", QUIET)
    assert not left.exists()


@pytest.mark.parametrize("at_once", [1 << 30, 0])
def test_every_wrong_byte_is_found_before_or_while_a_store_is_used(
    at_once: int, store: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checking, "AT_ONCE", at_once)
    monkeypatch.setattr(Checking.__init__, "__defaults__", (at_once,))
    info = Datastore.open(store).info
    random = np.random.default_rng(3)
    for file, _ in files_of(store, info):
        good = file.read_bytes()
        bad = bytearray(good)
        bad[int(random.integers(len(bad)))] ^= 1 << int(random.integers(8))
        file.write_bytes(bad)
        with pytest.raises(InputError, match=f"{file.name} does not have the checksum"):
            Datastore.open(store).checking.finish()
        file.write_bytes(good)
    Datastore.open(store).checking.finish()


def test_files_of_another_store_are_found(model: Speech2Text, store: Path):
    other = Datastore.build(model, tiny_store.pairs(60, 5), store.with_name("other"), "one", QUIET).path
    os.replace(other / "index-00000" / "index.faiss", store / "index-00000" / "index.faiss")
    with pytest.raises(InputError, match=r"index\.faiss"):
        Datastore.open(store)


def test_what_was_right_is_remembered_until_it_changes(store: Path, monkeypatch: pytest.MonkeyPatch):
    for path in store.rglob("*"):
        os.utime(path, (1e9, 1e9))  # young files are not remembered
    Datastore.open(store)
    read: list[Path] = []
    monkeypatch.setattr("npda.io.digests.file_digest", lambda path: read.append(Path(path)) or "0" * 64)
    Datastore.open(store)
    assert read == []
    keys = store / "shards" / "00000" / "keys.npy"
    os.utime(keys, (1e9, 2e9))
    with pytest.raises(InputError, match=r"keys\.npy"):
        Datastore.open(store)
    assert read == [keys.absolute()]


def test_a_bit_of_datastore_json_is_found(store: Path):
    path = store / "datastore.json"
    for wrong in (path.read_text().replace('"nprobe": 2', '"nprobe": 1'), path.read_text().replace("one", "two", 1)):
        path.with_name("datastore.json").write_text(wrong)
        with pytest.raises(InputError, match="checksum that stands in it"):
            Datastore.open(store)
        path.write_text(json.dumps(json.loads(wrong) | {"format": 1, "sha256": None}))
        with pytest.raises(InputError, match="checksum that stands in it"):
            Datastore.open(store)
