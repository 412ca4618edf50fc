"""The demonstration on a corpus of some dozen sentences and a model trained for seconds: its flow, not its figures."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu
import torch
import typer
from page_reader import Page, check_stands_alone
from safetensors.torch import load_file
from typer.testing import CliRunner

from npda.cli.demo import demo as verb
from npda.corpus.manifest import read_manifest, write_manifest
from npda.corpus.mini import Mini, prepare, speech
from npda.corpus.mini.grammar import sentences
from npda.corpus.pairs import Pair
from npda.decoding.beam import SearchOptions
from npda.demo import demo
from npda.demo import model as demo_model
from npda.demo import stages as demo_stages
from npda.demo.corpus import read_corpus
from npda.demo.demo import run_demo
from npda.demo.model import FILE, ModelRecipe, open_model
from npda.demo.results import DemoReport, changed_first, marked
from npda.demo.stages import DemoOptions
from npda.demo.terms import Listed, count_use
from npda.explanation.records import Evidence
from npda.io.errors import InputError
from npda.models.speech2text import Speech2Text
from npda.training.loop.settings import ALIGN_MINI, MINI
from npda.training.tasks.speech import SpeechModel

SIZES = {"train": 40, "dev": 6, "test": 6}
RECIPE = ModelRecipe(
    SpeechModel(preset="mini", source_size=70, target_size=80),
    replace(MINI, max_epochs=2, warmup=5),
    replace(ALIGN_MINI, max_epochs=2, warmup=5),
    layers=1,
)
OPTIONS = DemoOptions(RECIPE, SearchOptions(beam=2, max_length=12), decodes=2, fractions=(1 / 4, 1 / 2), processes=1)
FROM_BEFORE = {"recalled", "seconds"}  # what differs when results are found


def few(domain: str, split: str, language: str = "de", seed: int = 0) -> list[Pair]:
    return sentences(domain, split, language, seed)[: SIZES[split]]


@pytest.fixture(scope="module", autouse=True)
def small(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speech, "sentences", few)
        patch.setenv("NPDA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, DemoReport]:
    """A demonstration from scratch: its directory and what it found."""
    out = tmp_path_factory.mktemp("demo") / "run"
    return out, run_demo(out, from_scratch=True, options=OPTIONS, progress=False)


def test_what_scripts_read(trained):
    out, report = trained
    record = json.loads(json.dumps(report.record()))
    assert list(record["systems"]) == ["E2E-ST-Base", "NPDA-kNN-ST", "NPDA-kNN-ST, guarded", "kNN-MT"]
    assert record["systems"]["E2E-ST-Base"].keys() == {"general", "domain"}
    for name in ("NPDA-kNN-ST", "kNN-MT"):
        assert record["systems"][name].keys() == {"general", "domain", "p_vs_base"}
        assert 0 < record["systems"][name]["p_vs_base"] <= 1
    assert -1 <= record["similarity"]["cosine"] <= 1
    assert record["similarity"]["squared_distance"] >= 0
    assert record["best"].keys() == {"k", "lambda", "temperature"}
    assert record["seconds"]["total"] >= sum(report.seconds.values()) - 1
    assert [(p["fraction"], p["pairs"]) for p in record["curve"]] == [(0.25, 10), (0.5, 20), (1.0, 40)]
    assert record["curve"][-1]["domain"] == record["systems"]["NPDA-kNN-ST"]["domain"]
    assert len(record["examples"]) == 5
    assert record["dropped"] == 0
    assert record["terms"]["list"]["teacher"] == "Lehrkraft"
    said = [
        word for domain in ("general", "parliament") for pair in few(domain, "test") for word in pair.src_text.split()
    ]
    assert record["terms"]["said"] == sum(word.strip(".,?!").lower() in record["terms"]["list"] for word in said)
    assert 0 <= record["terms"]["used"] <= record["terms"]["said"]

    for name, system in record["systems"].items():
        for domain, key in (("general", "general"), ("parliament", "domain")):
            lines, references = (
                (out / "translations" / f"{which}.{domain}.txt").read_text().splitlines()
                for which in (name, "references")
            )
            assert references == [pair.tgt_text for pair in few(domain, "test")]
            assert system[key] == pytest.approx(sacrebleu.corpus_bleu(lines, [references]).score, abs=0.005)


def test_the_trained_model_is_written_as_it_is_shipped(trained):
    out, report = trained
    assert report.model == out / "model"
    for name in ("model.safetensors", "text_encoder/model.safetensors"):
        whole, half = load_file(out / "aligned" / name), load_file(report.model / name)
        assert whole.keys() == half.keys()
        for key, weights in half.items():
            assert weights.dtype == torch.float16
            assert torch.equal(weights, whole[key].half())
    opened, aligned = (Speech2Text.from_pretrained(directory) for directory in (report.model, out / "aligned"))
    assert {parameter.dtype for parameter in opened.parameters()} == {torch.float32}
    assert opened.model.config.to_json(torch.float32) == aligned.model.config.to_json(torch.float32)
    made = json.loads((report.model / FILE).read_text())
    assert (made["language"], made["seed"], made["alignment"]["layers"]) == ("de", 0, 1)
    assert made["base"]["max_epochs"] == 2


def test_the_shipped_model_gives_what_it_gave_from_scratch_even_if_killed_on_the_way(trained, tmp_path, monkeypatch):
    _, report = trained
    out, options = tmp_path / "run", replace(OPTIONS, shipped=report.model)

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(demo_stages, "similarity", killed)
        with pytest.raises(KeyboardInterrupt):
            run_demo(out, options=options, progress=False)
    stores = {path: path.stat().st_mtime_ns for path in (out / "stores").rglob("keys.npy")}
    assert len(stores) == 2  # text and speech
    resumed = run_demo(out, options=options, progress=False)
    assert "train" not in resumed.seconds
    assert {"base", "tuning", "npda", "knn_mt_tuning", "knn_mt", "significance"} <= set(resumed.recalled)
    assert "similarity" not in resumed.recalled
    again = run_demo(out, options=options, progress=False)
    assert set(again.recalled) == set(resumed.recalled) | {"similarity", "curve", "examples"}
    assert {path: path.stat().st_mtime_ns for path in stores} == stores
    for key in report.record().keys() - FROM_BEFORE - {"stores", "report", "model"}:
        assert again.record()[key] == report.record()[key]


def test_two_processes_find_the_same(trained, tmp_path):
    _, report = trained
    out, options = tmp_path / "run", replace(OPTIONS, shipped=report.model, processes=2)
    found = run_demo(out, options=options, progress=False)
    assert found.recalled == ()
    assert "knn_mt" in found.seconds
    for key in report.record().keys() - FROM_BEFORE - {"stores", "report", "model"}:
        assert found.record()[key] == report.record()[key]


def test_the_report_needs_nothing_but_itself(trained):
    _, report = trained
    page = Page(report.page.read_text(encoding="utf-8"))
    check_stands_alone(page)
    assert "script" not in page.tags
    assert {link for link in page.all("href") if not link.startswith("#")} == {"why.html"}
    assert len(page.find("svg")) == 3
    check_stands_alone(Page(report.why.read_text(encoding="utf-8")))
    for example in report.examples:
        assert " ".join(example.said.split()) in page.visible


def test_a_store_that_does_not_help_is_no_reason_to_fail(trained, tmp_path, monkeypatch):
    _, report = trained
    honest = demo_stages.tune

    def alone(*arguments, **options):
        found = honest(*arguments, **options)
        return replace(found, best=replace(found.best, lambda_=0.0), outcome=found.base)

    monkeypatch.setattr(demo_stages, "tune", alone)
    useless = run_demo(tmp_path / "run", options=replace(OPTIONS, shipped=report.model), progress=False)
    base, npda = useless.systems["E2E-ST-Base"], useless.systems["NPDA-kNN-ST"]
    assert (npda.general, npda.domain, npda.p_vs_base) == (base.general, base.domain, 1.0)
    assert useless.price == 0
    assert len(useless.examples) == 5
    assert all(example.base == example.adapted and example.because is None for example in useless.examples)
    check_stands_alone(Page(useless.page.read_text(encoding="utf-8")))


def test_a_model_of_another_corpus_is_refused(trained, tmp_path, monkeypatch):
    _, report = trained
    with pytest.raises(InputError, match=r"no trained model.*--from-scratch"):
        open_model(tmp_path)
    model = shutil.copytree(report.model, tmp_path / "model")
    assert open_model(model).made == open_model(report.model).made
    with monkeypatch.context() as patch:
        patch.setattr(demo_model, "VOICES", ("en-gb",))
        with pytest.raises(InputError, match="another version of the embedded corpus"):
            run_demo(tmp_path / "run", options=replace(OPTIONS, shipped=model), progress=False)
    assert not (tmp_path / "run").exists()
    (model / FILE).write_text('{"format": 2}')
    with pytest.raises(InputError, match=r"model\.json: format"):
        open_model(model)


def test_sentences_the_model_was_trained_on_are_left_out(trained, tmp_path):
    _, report = trained
    corpus = Mini(shutil.copytree(prepare(progress=False).directory, tmp_path / "corpus"))
    known = sentences("general", "train")[:2]
    test = read_manifest(corpus.manifest("general", "test"))
    test[0] = replace(test[0], src_text=known[0].src_text)
    test[3] = replace(test[3], tgt_text=known[1].tgt_text)
    write_manifest(corpus.manifest("general", "test"), test)
    found = read_corpus(corpus, open_model(report.model).made)
    assert found.dropped == 2
    assert found.speech["general", "test"] == [test[place] for place in (1, 2, 4, 5)]
    assert len(found.domain_text) == 40


def test_the_folder_of_an_earlier_version_is_cleared_and_that_of_others_is_left_alone(tmp_path):
    def leave(out: Path) -> None:
        (out / "results").mkdir(parents=True)
        (out / "results" / "base.json").write_text('{"seconds": 1, "result": {"general": []}}')
        (out / "stores" / "parliament-text").mkdir(parents=True)

    out = tmp_path / "earlier"
    leave(out)
    (out / "demo.json").write_text('{"model": "0123", "corpus": ["1", "de", 0], "code": "4567"}')
    (out / "model").mkdir()
    demo._claim(out)
    assert {path.name for path in out.iterdir()} == {"demo.json", "model"}
    (out / "results").mkdir()
    demo._claim(out)
    assert (out / "results").is_dir()

    leave(tmp_path / "mine")
    with pytest.raises(InputError, match="results exists but was not created by `npda demo`"):
        demo._claim(tmp_path / "mine")
    assert (tmp_path / "mine" / "stores" / "parliament-text").is_dir()


def test_the_first_changed_sentences_are_shown():
    base, adapted = ["a", "b", "c", "d"], ["a", "x", "c", "y"]
    assert changed_first(base, adapted, 1) == [1]
    assert changed_first(base, adapted, 3) == [0, 1, 3]
    assert changed_first(base, base, 2) == [0, 1]


def test_the_mark_covers_whole_words():
    evidence = Evidence(1.0, 1.0, True, "the vote", "Die Abstimmung ist", 5, 10, "s", "s")
    assert marked(evidence) == ("Die ", "Abstimmung", " ist")
    assert marked(replace(evidence, start=18, end=18)) == ("Die Abstimmung ", "ist", "")


@pytest.mark.parametrize("as_json", [True, False])
def test_the_verb_prints_what_was_found(trained, as_json, monkeypatch, tmp_path):
    _, report = trained
    asked = []
    monkeypatch.setattr(demo, "run_demo", lambda *given, **_: asked.append(given) or report)
    app = typer.Typer()
    app.command()(verb)
    arguments = ["--out", str(tmp_path), "--seed", "3", "--from-scratch", *(["--json"] if as_json else [])]
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments, catch_exceptions=False)
    assert asked == [(tmp_path, 3, True)]
    if as_json:
        assert json.loads(answer.stdout) == json.loads(json.dumps(report.record()))
        return
    for words in ("Δ parliament", "E2E-ST-Base", "NPDA-kNN-ST", "kNN-MT", "cosine", "price", "seconds", "report.html"):
        assert words in answer.stdout
    assert answer.stdout.count("said ") == 5
    assert answer.stdout.count("base ") >= 5


def test_use_of_terms_is_counted_over_both_tests():
    found = {
        "general": [Listed("Der Lehrer ist da.", "Die Lehrkraft ist da.", ("Lehrkraft",)), Listed("Ja.", "Nein.", ())],
        "parliament": [Listed("Das Schreiben.", "Das Schreiben.", ()), Listed("Der Arzt.", "Der Arzt.", ())],
    }
    said = {"general": ["The teacher is here.", "Yes."], "parliament": ["This letter.", "The doctor."]}
    use = count_use(found, said, Path("terms"))
    assert (use.said, use.before, use.used) == (3, 1, 2)
    assert (use.sentences, use.changed) == (1, 1)
    assert [example.said for example in use.examples] == ["The teacher is here."]
