"""A store on disk: what is refused at the door, what verification finds, edits that are interrupted."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_store

from npda.corpus.pairs import Pair
from npda.datastore import edit
from npda.datastore.retrieval.joined import JoinedRetriever
from npda.datastore.retrieval.local import LocalRetriever
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.datastore.verify import verify
from npda.io.errors import InputError
from npda.io.locks import locked

QUIET = BuildOptions(progress=False, chunk=20)
WITH_INDEX = BuildOptions(progress=False, chunk=20, index="IVF8,SQ8", nprobe=8)


@pytest.fixture(scope="module")
def model():
    return tiny_store.backbone()


@pytest.fixture(scope="module")
def built(model, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "s"
    return Datastore.build(model, tiny_store.pairs(50), path, "first", WITH_INDEX).path


@pytest.fixture
def store(built, tmp_path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "s"))


def keys_of(store: Datastore) -> tuple[np.ndarray, np.ndarray]:
    """Ids and keys of all entries."""
    ids = store.entries.sample(10**9, 0)
    return ids, store.entries.keys(ids)


def check_search(store: Datastore) -> None:
    """The nearest stored keys are found, by their ids, and nothing else: every list is looked at."""
    ids, keys = keys_of(store)
    queries = keys[::7] + 0.01
    found = LocalRetriever(store, nprobe=1000, rerank=10).search(queries, 5)
    true, rows = tiny_store.brute_force(keys, queries, 5)
    np.testing.assert_allclose(found.distances, true, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found.ids[:, 0], ids[rows[:, 0]])
    assert np.isin(found.ids, ids).all()
    for id_, value in zip(found.ids[:9, 0], found.values[:9, 0], strict=True):
        assert store.neighbour_info(int(id_)).token == value


def test_a_store_describes_itself(model, store):
    opened = Datastore.open(store, model)
    info = json.loads((store / "datastore.json").read_text())
    assert (info["format"], info["count"], info["dim"], info["dtype"]) == (2, len(opened), 32, "float16")
    assert info["key"] == "decoder output after the final layer norm"
    assert info["sources"][0]["name"] == "first"
    assert info["sources"][0]["sentences"] == 50
    assert info["index"]["recall"]["value"] > 0.9
    size = sum(file.stat().st_size for file in store.rglob("index.faiss"))
    assert info["index"]["bytes_per_key"] == pytest.approx(size / len(opened), abs=0.01)
    assert opened.sizes()["keys"] == sum(file.stat().st_size for file in store.rglob("keys.npy"))
    assert info["distance_scale"] is None
    with locked(store), pytest.raises(InputError, match="Another process"):
        opened.with_distance_scale(31.5)
    measured = opened.with_distance_scale(31.5)
    assert Datastore.open(store).info.distance_scale == 31.5
    assert measured.digest == opened.digest
    verify(store, progress=False)


def test_another_model_or_vocabulary_is_refused(model, store):
    with pytest.raises(InputError, match="built with another model"):
        Datastore.open(store, tiny_store.backbone(seed=1))
    with pytest.raises(InputError, match="another target vocabulary"):
        Datastore.open(store, tiny_store.backbone(languages=("de",)))
    other = tiny_store.backbone()
    other.dim = 64
    with pytest.raises(InputError, match="keys of 32 dimensions"):
        Datastore.open(store, other)
    # A new text encoder leaves the decoder, and so the space of the keys, as it was.
    again = tiny_store.backbone()
    assert again.text_encoder is not None
    again.text_encoder.embedding.weight.data += 1
    Datastore.open(store, again)


def edit_info(store: Path, **changes) -> None:
    info = json.loads((store / "datastore.json").read_text())
    write_by_hand(store, {**info, **changes})


def write_by_hand(store: Path, info: dict) -> None:
    """As version 1 of the file, which has no checksum of its own."""
    info.pop("sha256", None)
    (store / "datastore.json").write_text(json.dumps({**info, "format": 1}))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda s: (s / "datastore.json").unlink(), "is not a datastore"),
        (lambda s: (s / "datastore.json").write_text("{"), "not readable JSON"),
        (lambda s: (s / "datastore.json").write_text("[]"), "format None"),
        (lambda s: (s / "datastore.json").write_text('{"format": 3}'), "has the format 3, this npda reads format 1"),
        (lambda s: edit_info(s, next_id=10**12), "ids up to 1,000,000,000,000 for"),
        (lambda s: edit_info(s, dim="many"), "datastore.json: dim"),
        (lambda s: edit_info(s, count=3), "counts of sources and shards disagree"),
        (lambda s: edit_info(s, extra=1), "datastore.json: extra"),
        (lambda s: os.truncate(s / "shards/00001/keys.npy", 200), "00001/keys.npy has 200 bytes instead of"),
        (lambda s: (s / "shards/00002/texts.bin").unlink(), r"00002/texts.bin is missing"),
        (lambda s: os.truncate(s / "index-00000/index.faiss", 99), "index.faiss has 99 bytes"),
    ],
)
def test_a_damaged_store_is_refused(store, damage, sentence):
    damage(store)
    with pytest.raises(InputError, match=sentence):
        Datastore.open(store)


def test_a_shard_cannot_lie_elsewhere(store):
    info = json.loads((store / "datastore.json").read_text())
    info["shards"][0]["name"] = "../../elsewhere"
    write_by_hand(store, info)
    with pytest.raises(InputError, match=r"shards\.0\.name"):
        Datastore.open(store)


@pytest.mark.parametrize(
    "name",
    ["shards/00000/keys.npy", "shards/00001/values.npy", "shards/00001/texts.bin", "index-00000/index.faiss"],
)
def test_one_wrong_byte_is_found(store, name):
    content = bytearray((store / name).read_bytes())
    content[-9] ^= 1
    (store / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name} does not have the checksum"):
        Datastore.open(store)
    with pytest.raises(InputError, match=f"{name} does not have the checksum"):
        verify(store, progress=False)


def rewrite(store: Path, name: str, change) -> None:
    """Change an array, and its checksum with it: what a faulty writer would have left."""
    from npda.datastore.format import FileInfo

    array = np.load(store / "shards/00001" / name)
    change(array)
    np.save(store / "shards/00001" / name, array)
    info = json.loads((store / "datastore.json").read_text())
    info["shards"][1]["files"][name] = FileInfo.of(store / "shards/00001" / name).model_dump()
    write_by_hand(store, info)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("keys.npy", np.nan, "keys that are not numbers"),
        ("values.npy", 60_000, "values.npy holds numbers outside"),
        ("values.npy", -1, "values.npy holds numbers outside"),
        ("sentences.npy", 9_999, "sentences.npy holds numbers outside"),
        ("offsets.npy", 10**6, "offsets.npy does not fit"),
    ],
)
def test_verification_looks_into_the_arrays(store, name, value, sentence):
    rewrite(store, name, lambda array: array.__setitem__(3, value))
    with pytest.raises(InputError, match=sentence):
        verify(store, progress=False)


@pytest.mark.parametrize("options", [WITH_INDEX, QUIET, BuildOptions(progress=False, chunk=20, index="Flat")])
def test_sources_come_and_go(model, tmp_path, options):
    one, two, three = (tiny_store.pairs(30, seed) for seed in (1, 2, 3))
    store = Datastore.build(model, one, tmp_path / "s", "one", options)
    alone = keys_of(store)
    store = store.append(model, Source("two", two), QUIET)
    store = store.append(model, Source("three", three, "glossary"), QUIET)
    ids, keys = keys_of(store)
    together = Datastore.build(model, one + two + three, tmp_path / "t", options=options)
    np.testing.assert_allclose(keys, keys_of(together)[1], atol=4e-3, rtol=4e-3)
    np.testing.assert_array_equal(ids, np.arange(len(store)))
    check_search(store)
    verify(store.path, progress=False)
    assert store.info.kinds == ("text", "glossary")

    kept = {source.name: source.keys for source in store.info.sources}
    in_use = LocalRetriever(store, rerank=4)
    found_before = in_use.search(keys[::9], 4)
    store = store.remove("two")
    found_after = in_use.search(keys[::9], 4)  # whoever is searching keeps what was opened
    np.testing.assert_array_equal(found_before.ids, found_after.ids)
    left, left_keys = keys_of(store)
    gone = np.arange(kept["one"], kept["one"] + kept["two"])
    np.testing.assert_array_equal(left, np.setdiff1d(ids, gone))
    np.testing.assert_array_equal(left_keys, np.delete(keys, gone, axis=0))
    check_search(store)
    verify(store.path, progress=False)
    assert not set(store.search(keys[gone], 8).ids.ravel()) & set(gone)
    with pytest.raises(KeyError):
        store.neighbour_info(int(gone[0]))

    store = store.append(model, Source("two", two), QUIET).remove("three").remove("one")
    assert store.info.sources[0].keys == kept["two"] == len(store)
    assert store.entries.sample(1, 0)[0] >= len(ids)  # ids are never used twice
    check_search(store)
    verify(store.path, progress=False)
    assert len(os.listdir(store.path / "shards")) == 2
    assert len(store.remove("two").append(model, Source("one", one), QUIET)) == len(alone[0])
    check_search(Datastore.open(store.path))


def test_a_source_stands_once_and_is_known_by_name(model, store):
    opened = Datastore.open(store)
    with pytest.raises(InputError, match="already has a source 'first'"):
        opened.append(model, Source("first", tiny_store.pairs(2)), QUIET)
    with pytest.raises(InputError, match="no source 'second'; it has first"):
        opened.remove("second")
    with pytest.raises(InputError, match="built with another model"):
        opened.append(tiny_store.backbone(seed=1), Source("x", tiny_store.pairs(2)), QUIET)
    with pytest.raises(InputError, match="cannot be called"):
        Source(" ", [])


def test_a_grown_store_gets_an_index(model, tmp_path, monkeypatch):
    from npda.datastore.index import spec

    monkeypatch.setattr(spec, "EXACT_BELOW", 600)
    store = Datastore.build(model, tiny_store.pairs(40), tmp_path / "s", "one", QUIET)
    assert store.info.index.factory == "exact"
    store = store.append(model, Source("two", tiny_store.pairs(40, 1)), QUIET)
    assert "IVF" in store.info.index.factory
    check_search(store)


STEPS = [
    *(("append", *step) for step in [("_extended", 0), ("os.rename", 0), ("os.rename", 1), ("os.rename", 2)]),
    *((action, *step) for action in ("append", "remove") for step in [("replace_info", 0), ("tidy", 1)]),
    ("remove", "os.rename", 0),
]


@pytest.mark.parametrize(("action", "step", "call"), STEPS)
def test_an_interrupted_edit_leaves_the_old_store_or_the_new(model, store, monkeypatch, action, step, call):
    opened = Datastore.open(store).append(model, Source("second", tiny_store.pairs(30, 8)), QUIET)
    before = keys_of(opened)
    del opened  # as a reader, it would keep what it reads

    def change() -> Datastore:
        if action == "remove":
            return Datastore.open(store).remove("first")
        return Datastore.open(store).append(model, Source("third", tiny_store.pairs(25, 9)), QUIET)

    copy = Path(shutil.copytree(store, store.with_name("copy")))
    expected = (
        keys_of(Datastore.open(copy).remove("first"))
        if action == "remove"
        else keys_of(Datastore.open(copy).append(model, Source("third", tiny_store.pairs(25, 9)), QUIET))
    )

    holder, name = (edit.os, "rename") if step == "os.rename" else (edit, step)
    real, calls = getattr(holder, name), []

    def failing(*arguments, **named):
        own = step != "os.rename" or ("/.edit/" in str(arguments[0]) and "/.edit/" not in str(arguments[1]))
        calls.append(1) if own else None
        if own and len(calls) == call + 1:
            raise RuntimeError("power cut")
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(holder, name, failing)
        with pytest.raises(RuntimeError, match="power cut"):
            change()
    found = keys_of(Datastore.open(store))
    now = expected if step == "tidy" else before
    for one, other in zip(found, now, strict=True):
        np.testing.assert_array_equal(one, other)
    check_search(Datastore.open(store))
    verify(store, progress=False)
    if now is before:
        done = change()
        for one, other in zip(keys_of(done), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    check_search(Datastore.open(store))
    verify(store, progress=False)
    named = {shard.name for shard in Datastore.open(store).info.shards}
    if now is before:
        assert set(os.listdir(store / "shards")) == named
        assert not (store / ".edit").exists()
        assert len(list(store.glob("index-*"))) == 1


def test_an_older_glossary_is_searched_with_the_rest(model, store, tmp_path):
    pairs = [Pair("the floor", "das Wort"), Pair("window", "Boden")]
    source = Source("terms.csv", pairs, "glossary")
    terms = Datastore.build_from(model, source, tmp_path / "terms", QUIET)
    assert (terms.info.index.factory, terms.info.kinds) == ("exact", ("glossary",))
    joined = JoinedRetriever([Datastore.open(store), terms])
    queries = keys_of(terms)[1]
    found = joined.search(queries, 4)
    np.testing.assert_allclose(found.distances[:, 0], 0, atol=1e-6)
    entry = joined.neighbour_info(int(found.ids[0, 0]))
    assert (entry.source_text, entry.target_text, entry.source) == ("the floor", "das Wort", "terms.csv")
