"""npda adapt: the whole way in one call, only what is missing in the next."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import tiny_store
import tiny_training
import typer
from typer.testing import CliRunner

from npda.adapt import adapt as module
from npda.adapt.adapt import AdaptOptions, Inputs, adapt
from npda.adapt.text_path import TextPath
from npda.cli.adapt import adapt as adapt_verb
from npda.corpus.manifest import read_manifest, write_manifest
from npda.corpus.pairs import Pair, read_pairs, write_pairs
from npda.datastore.counter import build_counter, cached_home
from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.tuned import load_learned, load_tuned
from npda.evaluation.faults import StoreText
from npda.evaluation.significance import compare
from npda.evaluation.tuning.folds import LearnedTuning
from npda.evaluation.tuning.objective import Outcome
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.stages.code import Code
from npda.training.loop.settings import TrainingSettings
from npda.translator import Translator

SETTINGS = TrainingSettings(
    batch_frames=120, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment=None,
    max_epochs=1, patience=None, average=1,
)  # fmt: skip
SEARCH = SearchOptions(beam=1, max_length=12)
OPTIONS = AdaptOptions(search=SEARCH, decodes=1, samples=100)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A model that cannot read, one that can, general speech, a domain's text, dev and test."""
    folder = tmp_path_factory.mktemp("files")
    tiny.backbone().save_pretrained(folder / "base")
    tiny_store.backbone().save_pretrained(folder / "reads")
    tiny_training.manifests(folder)
    (folder / "train.tsv").rename(folder / "triplets.tsv")
    (folder / "dev.tsv").rename(folder / "general-dev.tsv")
    speech = tiny_training.utterances(folder / "audio", 6, 3)
    write_manifest(folder / "dev.tsv", speech)
    text = tiny_store.pairs(14, seed=5)
    write_pairs(folder / "test.tsv", text[10:])
    leaking = [Pair(text[11].src_text.upper() + "!", text[11].tgt_text), Pair("x", speech[0].tgt_text)]
    write_pairs(folder / "domain.tsv", [*tiny_store.pairs(10, seed=7), *leaking])
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("NPDA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def inputs(files: Path, out: Path, model: str = "reads", **changes) -> Inputs:
    given = Inputs(str(files / model), files / "domain.tsv", files / "dev.tsv", out, files / "test.tsv")
    return replace(given, **changes)


def taught(files: Path) -> AdaptOptions:
    return replace(OPTIONS, text_path=TextPath((files / "triplets.tsv",), (files / "general-dev.tsv",),
                                               settings=SETTINGS, layers=1))  # fmt: skip


def test_the_first_domain_teaches_and_the_next_finds_it(files, cache, tmp_path):
    found = adapt(inputs(files, tmp_path / "one", "base"), taught(files), progress=False)
    assert found.aligned == "now"
    assert found.model.is_relative_to(cache)
    assert load_backbone(found.model).reads
    assert (found.kind, found.on, found.way, found.sentences) == ("text", "test", "text", 4)
    assert found.seconds["align"] > 0

    again = adapt(inputs(files, tmp_path / "two", "base"), OPTIONS, progress=False)
    assert (again.aligned, again.model) == ("before", found.model)
    assert Datastore.open(again.store).digest == Datastore.open(found.store).digest


def test_held_out_sentences_are_not_in_the_store(files, tmp_path):
    found = adapt(inputs(files, tmp_path / "out"), OPTIONS, progress=False)
    assert (found.dropped.kept, found.dropped.leaks) == (10, 2)
    leaks = [json.loads(line) for line in found.leaks.read_text(encoding="utf-8").splitlines()]
    assert [(leak["reason"], leak["side"]) for leak in leaks] == [("equal", "pair"), ("equal", "target")]
    store = Datastore.open(found.store)
    texts = {store.neighbour_info(number).source_text for number in range(len(store))}
    assert texts == {pair.src_text for pair in tiny_store.pairs(10, seed=7)}


def test_the_gain_is_that_of_translating(files, tmp_path):
    """On the dev speech: what `npda translate` says with and without the store, compared by itself."""
    found = adapt(inputs(files, tmp_path / "out", test=None), OPTIONS, progress=False)
    assert (found.on, found.way, found.tuning.way) == ("dev", "speech", "speech")
    dev, translator = read_manifest(files / "dev.tsv"), Translator.from_pretrained(files / "reads")
    store = Datastore.open(found.store)
    tuned = load_tuned(store)
    assert tuned is not None
    assert tuned == found.tuning.best
    fusions = [translator.neighbours([store], tuned)]
    alone, adapted = (
        [str(t) for t in translator.translate_all([u.audio for u in dev], SEARCH, fusions=given, listens=False)]
        for given in ((), fusions)
    )
    assert [*found.comparisons] == compare(adapted, alone, [u.tgt_text for u in dev], samples=100)


def test_the_gain_of_a_network_is_that_of_translating_with_it(files, tmp_path, monkeypatch):
    monkeypatch.setattr(LearnedTuning, "wins", True)
    options = replace(OPTIONS, adaptive=True)
    given = inputs(files, tmp_path / "out", test=None)
    plain = adapt(given, OPTIONS, progress=False)
    found = adapt(given, options, progress=False)
    assert {"store", "tuning", "base"} <= {*found.found}
    assert not plain.adaptive
    assert found.adaptive
    assert all("--adaptive" in shlex.split(command) for command in found.next_commands)
    dev, translator, store = read_manifest(files / "dev.tsv"), Translator.from_pretrained(files / "reads"), found.store
    fusions = [translator.neighbours([Datastore.open(store)], load_learned(Datastore.open(store)))]
    alone, adapted = (
        [str(t) for t in translator.translate_all([u.audio for u in dev], SEARCH, fusions=given, listens=False)]
        for given in ((), fusions)
    )
    assert [*found.comparisons] == compare(adapted, alone, [u.tgt_text for u in dev], samples=100)

    again = adapt(given, options, progress=False)
    assert {"adaptive", "adapted"} <= {*again.found}
    assert again.comparisons == found.comparisons
    (store / "adaptive.json").unlink()
    assert adapt(given, options, progress=False).comparisons == found.comparisons
    assert (store / "adaptive.json").is_file()


def test_a_network_that_does_not_win_is_left_out(files, tmp_path, monkeypatch):
    given = inputs(files, tmp_path / "out", test=None)
    plain = adapt(given, OPTIONS, progress=False)
    monkeypatch.setattr(LearnedTuning, "wins", False)
    found = adapt(given, replace(OPTIONS, adaptive=True), progress=False)
    assert found.learned is not None
    assert not found.learned["kept"]
    assert not found.adaptive
    assert not any("--adaptive" in command for command in found.next_commands)
    assert not (found.store / "adaptive.json").exists()
    assert found.sides == plain.sides
    assert "adaptive" in adapt(given, replace(OPTIONS, adaptive=True), progress=False).found


def test_gain_and_price_are_those_of_what_was_kept_as_text(files, tmp_path):
    """Both sides: figures from the files of translations, which are those of `npda translate`."""
    given = inputs(files, tmp_path / "out", test=None, general_test=files / "general-dev.tsv")
    found = adapt(given, OPTIONS, progress=False)
    assert [side.side for side in found.sides] == ["domain", "general"]
    text = StoreText.of(Datastore.open(found.store))
    for side, manifest in zip(found.sides, ("dev.tsv", "general-dev.tsv"), strict=True):
        utterances, translator = read_manifest(files / manifest), Translator.from_pretrained(files / "reads")
        texts = {
            system: (tmp_path / "out" / "translations" / f"{side.side}.{system}.txt").read_text().split("\n")[:-1]
            for system in ("alone", "adapted", "references")
        }
        said = [str(t) for t in translator.translate_all([u.audio for u in utterances], SEARCH, listens=False)]
        assert texts["alone"] == said
        assert texts["references"] == [u.tgt_text for u in utterances]
        assert side.alone == Outcome.of(texts["alone"], texts["references"], text)
        assert side.adapted == Outcome.of(texts["adapted"], texts["references"], text)
        assert [*side.comparisons] == compare(texts["adapted"], texts["alone"], texts["references"], samples=100)
    again = adapt(given, OPTIONS, progress=False)
    assert {"general-base", "base"} <= {*again.found}
    assert again.sides == found.sides
    assert found.record()["sides"][1]["sentences"] == len(read_manifest(files / "general-dev.tsv"))


def test_the_price_is_measured_on_what_is_there(files, cache, tmp_path):
    """The general dev sentences of the alignment; else what the counter-store lacks; else nothing."""
    text_path = TextPath(dev=(files / "general-dev.tsv",))
    found = adapt(inputs(files, tmp_path / "one"), replace(OPTIONS, text_path=text_path), progress=False)
    assert found.sides[1].sentences == len(read_manifest(files / "general-dev.tsv"))
    assert len(adapt(inputs(files, tmp_path / "two"), OPTIONS, progress=False).sides) == 1
    backbone = load_backbone(files / "reads")
    held_out = tiny_store.pairs(5, seed=11)
    build_counter(backbone, tiny_store.pairs(30, seed=12), cached_home(backbone), held_out,
                  BuildOptions(progress=False))  # fmt: skip
    guarded = adapt(inputs(files, tmp_path / "three"), OPTIONS, progress=False)
    assert (guarded.sides[1].sentences, guarded.sides[1].way) == (5, "text")
    assert not any("--unguarded" in command for command in guarded.next_commands)
    plain = adapt(inputs(files, tmp_path / "three"), replace(OPTIONS, unguarded=True), progress=False)
    assert all("--unguarded" in command for command in plain.next_commands)
    assert plain.sides[1].alone == guarded.sides[1].alone


def test_a_killed_call_goes_on(files, tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "tune", killed)
        with pytest.raises(KeyboardInterrupt):
            adapt(inputs(files, tmp_path / "out"), OPTIONS, progress=False)
    second = adapt(inputs(files, tmp_path / "out"), OPTIONS, progress=False)
    assert second.found == ("leaks", "store")

    written = (second.store / "datastore.json").stat().st_mtime_ns
    third = adapt(inputs(files, tmp_path / "out"), OPTIONS, progress=False)
    assert {"leaks", "store", "tuning", "base"} <= {*third.found}
    assert third.comparisons == second.comparisons
    assert (third.store / "datastore.json").stat().st_mtime_ns == written


def test_what_other_code_has_made_is_made_anew(files, tmp_path, monkeypatch):
    given = inputs(files, tmp_path / "out", test=None)
    first = adapt(given, OPTIONS, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_TUNING", Code(("npda.evaluation.tuning.search",), ("npda.corpus",)))
        changed = adapt(given, OPTIONS, progress=False)
        assert {"leaks", "store", "base"} <= {*changed.found}
        assert "tuning" not in changed.found
        assert "tuning" in adapt(given, OPTIONS, progress=False).found
    with monkeypatch.context() as patch:
        patch.setattr(module, "_STORE", Code(("npda.datastore.format",)))
        rebuilt = adapt(given, OPTIONS, progress=False)
    assert "store" not in rebuilt.found
    assert "base" in rebuilt.found
    assert rebuilt.comparisons == first.comparisons
    assert {path.name for path in given.out.iterdir()} == {"adapt", "store", "leaks.jsonl", "translations"}


def test_what_changed_is_done_again(files, tmp_path):
    out = tmp_path / "out"
    first = adapt(inputs(files, out, test=None), OPTIONS, progress=False)
    tested = adapt(inputs(files, out, dev=files / "dev.tsv", test=files / "dev.tsv"), OPTIONS, progress=False)
    assert {"store", "tuning", "base"} <= {*tested.found}
    write_pairs(tmp_path / "more.tsv", tiny_store.pairs(12, seed=8))
    other = adapt(inputs(files, out, text=tmp_path / "more.tsv", test=None), OPTIONS, progress=False)
    assert "base" in other.found
    assert not {"leaks", "store", "tuning"} & {*other.found}
    assert other.keys != first.keys
    assert {path.name for path in out.iterdir()} == {"adapt", "store", "leaks.jsonl", "translations"}


def test_a_voice_makes_a_text_path_unnecessary(files, cache, tmp_path):
    """Text for everything and a model that cannot read."""
    options = replace(OPTIONS, speak="espeak:en-us@300")
    given = inputs(files, tmp_path / "out", "base", dev=files / "test.tsv", test=None)
    found = adapt(given, options, progress=False)
    assert (found.aligned, found.kind, found.way, found.model) == ("no", "spoken", "speech", files / "base")
    spoken = read_manifest(tmp_path / "out" / "spoken" / "dev.tsv", check_audio=True)
    assert [u.src_text for u in spoken] == [pair.src_text for pair in read_pairs(files / "test.tsv")]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": "base"}, "cannot read text yet: give --triplets and --general-dev"),
        ({"text": "test.tsv"}, "All 4 pairs .* leak"),
        ({"out": "base/config.json"}, "is a file"),
        ({"out": "taken"}, "exists but was not created by `npda adapt`"),
    ],
)
def test_what_cannot_be_done_is_said(changes, says, files, cache, tmp_path):
    if not (files / "taken").exists():
        Datastore.build(tiny_store.backbone(), tiny_store.pairs(2), files / "taken" / "store",
                        options=BuildOptions(progress=False))  # fmt: skip
    model = changes.get("model", "reads")
    paths = {name: files / value for name, value in changes.items() if name != "model"}
    given = replace(inputs(files, tmp_path / "out", model), **paths)
    with pytest.raises(InputError, match=says):
        adapt(given, OPTIONS, progress=False)


def test_an_alignment_of_another_model_is_refused(files, cache, tmp_path):
    tiny_store.backbone(seed=3).save_pretrained(tmp_path / "other")
    options = replace(OPTIONS, text_path=TextPath(directory=tmp_path / "other"))
    with pytest.raises(InputError, match="choose another --aligned"):
        adapt(inputs(files, tmp_path / "out", "base"), options, progress=False)


def test_the_verb(files, tmp_path):
    app = typer.Typer()
    app.command()(adapt_verb)
    arguments = ["--model", files / "reads", "--text", files / "domain.tsv", "--dev", files / "dev.tsv"]
    arguments += ["--out", tmp_path / "an out", "--beam", 1, "--decodes", 1]

    def npda(*more: object) -> str:
        answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, [*arguments, *more])], catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    record = json.loads(npda("--json"))
    assert (record["judged_on"], record["leaks"], record["tuned_on"]) == ("dev", 1, "speech")
    assert {c["metric"] for c in record["comparisons"]} == {"BLEU", "chrF2"}
    for command in record["next"]:
        assert str(tmp_path / "an out" / "store") in shlex.split(command)
    assert [side["side"] for side in record["sides"]] == ["domain"]
    printed = npda()
    for words in ("gain and price", "model alone", "cut short", "loops", "copies", "give general sentences"):
        assert words in printed
    assert "general (" in npda("--general-test", files / "general-dev.tsv")
    assert record["next"][0] in printed
    assert "found from an earlier call: leaks, store, tuning" in printed
    with pytest.raises(InputError, match="There is no file"):
        npda("--test", tmp_path / "none.tsv")
    with pytest.raises(InputError, match="go together"):
        npda("--triplets", files / "triplets.tsv")
