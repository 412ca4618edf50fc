"""Stores of a server: found, opened by versions, replaced while they are read, freed with their last reader."""

from __future__ import annotations

import gc
import os
import shutil
import weakref
from pathlib import Path

import mini_stores
import numpy as np
import pytest
import tiny_store

from npda.datastore.source import Source
from npda.datastore.store import Datastore
from npda.decoding.knn.guarded import GuardedFusion
from npda.decoding.knn.steering import Chosen
from npda.serving.database import Database
from npda.serving.engine.asks import Way
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.serving.stores.library import StoreLibrary
from npda.translator import Translator


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model/ and a store, parliament/"""
    folder = tmp_path_factory.mktemp("made")
    translator = Translator.from_pretrained(mini_stores.model(folder / "model"))
    mini_stores.store(translator, folder / "parliament", mini_stores.parliament(120))
    return folder


@pytest.fixture(scope="module")
def translator(made: Path) -> Translator:
    return Translator.from_pretrained(made / "model")


@pytest.fixture
def settings(made: Path, tmp_path: Path) -> Settings:
    shutil.copytree(made / "parliament", tmp_path / "stores" / "parliament")
    return Settings(models={"mini": made / "model"}, data=tmp_path / "data", stores=tmp_path / "stores")


@pytest.fixture
def library(settings: Settings) -> StoreLibrary:
    return StoreLibrary(settings, Database(settings.data))


def texts(translator: Translator, library: StoreLibrary, way: Way, waves: list[np.ndarray]) -> list[str]:
    with library.held(translator, way.model, way.stores) as held:
        fusion = held.fusion(translator, way)
        found = translator.translate_all(waves, held.options(way), fusions=[fusion] if fusion else [])
        return [str(item) for item in found]


def test_a_store_steers_as_it_does_on_the_command_line(
    translator: Translator, library: StoreLibrary, settings: Settings
) -> None:
    assert settings.stores is not None
    store = Datastore.open(settings.stores / "parliament")
    waves = [mini_stores.said(pair.src_text) for pair in mini_stores.parliament(3, "test")]
    expected = [str(translator.translate(wave, datastore=store)) for wave in waves]
    assert texts(translator, library, Way("mini"), waves) == expected
    assert texts(translator, library, Way("mini", stores=("parliament",)), waves) == expected
    alone = [str(translator.translate(wave)) for wave in waves]
    assert texts(translator, library, Way("mini", stores=()), waves) == alone != expected


def test_what_a_request_chooses_comes_before_what_was_tuned(translator: Translator, library: StoreLibrary) -> None:
    with library.held(translator, "mini", "auto") as held:
        fusion = held.fusion(translator, Way("mini", chosen=Chosen(k=3, temperature=5.0)))
        assert isinstance(fusion, GuardedFusion)
        assert str(fusion).startswith("k:3|λ:0.7|T:5|end:0|α:1|guard:")
        assert held.options(Way("mini")).length_penalty == 1.0


def test_a_store_that_was_never_tuned_gets_the_rule(
    translator: Translator, library: StoreLibrary, settings: Settings
) -> None:
    assert settings.stores is not None
    mini_stores.store(translator, settings.stores / "untuned", mini_stores.parliament(20), tuned=False)
    with library.held(translator, "mini", ("untuned",)) as held:
        assert held.counter is not None
        assert held.counter.scale is not None
        fusion = str(held.fusion(translator, Way("mini")))
        assert fusion == f"k:8|λ:0.5|T:{float(f'{held.counter.scale / 10:.2g}'):g}|end:0|guard:20,0"


def test_cards_name_the_model_once_it_was_loaded(
    translator: Translator, library: StoreLibrary, settings: Settings
) -> None:
    assert settings.stores is not None
    theirs = tiny_store.backbone()
    Datastore.build(theirs, tiny_store.pairs(5), settings.stores / "theirs", options=mini_stores.QUIET)
    with library.held(translator, "mini", "auto") as held:
        assert [member.name for member in held.members] == ["parliament"]
    assert {card.name: card.model for card in library.cards()} == {"parliament": "mini", "theirs": ""}
    assert [card.name for card in library.cards("mini")] == ["parliament"]
    card = library.card("parliament")
    assert not card.editable
    assert card.sources == ("parliament.tsv",)
    assert card.card["gain"]["bleu"] == 60.0
    assert card.card["size_bytes"] > 0
    with pytest.raises(Refusal, match="another model") as refused:
        library.held(translator, "mini", ("theirs",))
    assert refused.value.status == 422
    library.database.close()
    again = StoreLibrary(settings, Database(settings.data))
    assert {card.name: card.model for card in again.cards()} == {"parliament": "mini", "theirs": ""}


@pytest.mark.parametrize("name", ["parliment", "..", "../stores/parliament", "/etc", "a" * 1000, ""])
def test_an_unknown_store_is_404(translator: Translator, library: StoreLibrary, name: str) -> None:
    with pytest.raises(Refusal) as refused:
        library.held(translator, "mini", (name,))
    assert refused.value.status == 404


def test_a_damaged_store_is_left_out(translator: Translator, library: StoreLibrary, settings: Settings) -> None:
    assert settings.stores is not None
    shutil.copytree(settings.stores / "parliament", settings.stores / "broken")
    (settings.stores / "broken" / "datastore.json").write_text("{")
    with library.held(translator, "mini", "auto") as held:
        assert [member.name for member in held.members] == ["parliament"]
    with pytest.raises(Refusal) as refused:
        library.held(translator, "mini", ("broken",))
    assert refused.value.status == 409


def test_a_store_edited_in_place_is_live_and_who_reads_it_keeps_what_it_was(
    translator: Translator, library: StoreLibrary, settings: Settings
) -> None:
    assert settings.stores is not None
    store = Datastore.open(settings.stores / "parliament")
    queries = store.entries.keys(np.arange(5))
    old = library.held(translator, "mini", "auto")
    (before,) = (member.version for member in old.members)
    assert before is not None
    wanted = store.search(queries, 4)
    more = Source("more", mini_stores.parliament(10, "dev"), "text")
    store = store.append(translator, more, mini_stores.QUIET).remove("parliament.tsv")
    with library.held(translator, "mini", "auto") as new:
        assert new.signature != old.signature
        (version,) = (member.version for member in new.members)
        assert version is not None
        assert version.info == store.info
        assert version.store.search(queries, 4).distances[0, 0] > 0
    # The keys that were removed from the disk are still there for who began before.
    np.testing.assert_array_equal(before.store.search(queries, 4).ids, wanted.ids)
    assert old.fusion(translator, Way("mini")) is not None
    gone = weakref.ref(before.store)
    files = len(os.listdir("/proc/self/fd"))
    maps = Path("/proc/self/maps").read_text().count(str(settings.stores / "parliament"))
    old.release()
    del before, old
    gc.collect()
    assert gone() is None
    assert len(os.listdir("/proc/self/fd")) <= files
    assert Path("/proc/self/maps").read_text().count(str(settings.stores / "parliament")) < maps


def published(library: StoreLibrary, name: str, from_: Path, id_: str) -> Path:
    folder = library.versions / id_ / name
    shutil.copytree(from_, folder)
    library.publish(name, folder)
    return folder


def test_versions_of_ours_go_with_their_last_reader(
    translator: Translator, library: StoreLibrary, settings: Settings
) -> None:
    assert settings.stores is not None
    first = published(library, "mine", settings.stores / "parliament", "1")
    one = library.held(translator, "mini", ("mine",))
    two = library.held(translator, "mini", ("mine",))
    assert library.card("mine").editable
    second = published(library, "mine", settings.stores / "parliament", "2")
    library.tidy()
    with library.held(translator, "mini", ("mine",)) as held:
        assert held.members[0].version is not None
        assert held.members[0].version.path == second
    one.release()
    one.release()  # counts once
    assert first.is_dir()
    assert one.signature == two.signature
    two.release()
    assert not first.exists()
    assert second.is_dir()
    reading = library.held(translator, "mini", ("mine",))
    library.delete("mine")
    assert not library.exists("mine")
    assert second.is_dir()
    version = reading.members[0].version
    assert version is not None
    assert version.store.neighbour_info(0).target_text
    del version
    reading.release()
    assert not second.exists()
    with pytest.raises(Refusal, match="Unknown store"):
        library.delete("mine")
    with pytest.raises(Refusal, match="only read"):
        library.delete("parliament")


def test_a_model_that_is_unloaded_takes_its_stores_along(translator: Translator, library: StoreLibrary) -> None:
    held = library.held(translator, "mini", "auto")
    assert held.members[0].version is not None
    gone = weakref.ref(held.members[0].version.store)
    held.release()
    del held
    assert gone() is not None
    library.forget("mini")
    gc.collect()
    assert gone() is None
