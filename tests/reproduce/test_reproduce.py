"""npda reproduce as a user meets it: a recipe of a few utterances of noise, run twice."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_corpora
import tiny_training
from typer.testing import CliRunner

from npda.cli import app
from npda.corpus.manifest import write_manifest
from npda.io.errors import InputError
from npda.reproduce.recipe.inputs import check_corpus
from npda.reproduce.recipe.recipe import Europarl, EuroparlST, MustC

RECIPES = Path(__file__).parents[2] / "recipes"

SYSTEMS = ["E2E-ST-Base", "NPDA-kNN-ST", "NPDA-kNN-ST, guarded", "Shallow Fusion"]

RECIPE = """\
name: tiny
corpora:
  general: {kind: manifests, train: general-train.tsv, dev: general-dev.tsv}
  domain: {kind: manifests, train: domain-train.tsv, dev: domain-dev.tsv, test: domain-test.tsv}
model:
  training: {max_epochs: null, max_updates: 3}
  alignment: {max_epochs: null, max_updates: 3}
systems: [E2E-ST-Base, NPDA-kNN-ST, "NPDA-kNN-ST, guarded", Shallow Fusion]
directions:
  - {name: there, general: general, domain: domain, languages: [de]}
tables: [adaptation, tuned, datastores]
search: {beam: 2, max_length: 12}
"""


def npda(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from npda.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny")
    for corpus, seed in (("general", 0), ("domain", 10)):
        for number, (split, count) in enumerate((("train", 12), ("dev", 4), ("test", 4))):
            made = tiny_training.utterances(directory / "audio", count, seed + number)
            write_manifest(directory / f"{corpus}-{split}.tsv", made)
    (directory / "tiny.yaml").write_text(RECIPE)
    return directory


@pytest.fixture(scope="module")
def first(folder: Path) -> dict:
    """What a first run prints."""
    answer = npda("reproduce", "tiny.yaml", "--json", cwd=folder)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return json.loads(answer.stdout)


def test_a_plan_needs_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["reproduce", str(folder / "tiny.yaml"), "--dry-run", "--json"])
    planned = json.loads(answer.stdout)
    assert [system["name"] for system in planned["systems"]] == SYSTEMS
    assert {stage["state"] for stage in planned["stages"]} == {"to do"}
    assert "translate Shallow Fusion there de" in [stage["name"] for stage in planned["stages"]]
    assert planned["cost"] > 0
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {"digests.json"}


def test_a_run_gives_every_cell_and_a_report(folder: Path, first: dict):
    assert {stage["state"] for stage in first["stages"]} == {"done"}
    adaptation, tuned, datastores = first["tables"]
    rows = {row["system"]["value"]: row for row in adaptation["rows"]}
    assert list(rows) == SYSTEMS
    assert all(isinstance(row["de"]["value"], float) for row in rows.values())
    assert 0 < rows["NPDA-kNN-ST"]["tuned M"]["value"] < rows["NPDA-kNN-ST"]["total M"]["value"]
    assert adaptation["notes"][-1].startswith("BLEU|nrefs:1|case:mixed|")
    assert all(isinstance(row["on general (dev)"]["value"], float) for row in rows.values())
    assert "general has no test set: its dev set, which chose checkpoints, is used." in adaptation["notes"]
    assert [row["system"]["value"] for row in tuned["rows"]] == SYSTEMS[1:]
    assert datastores["rows"][0]["entries"]["value"] > 12
    report = first["report"]
    for path in (report["html"], report["markdown"], report["json"], *report["csv"]):
        assert (folder / path).stat().st_size > 0


def test_a_second_run_does_nothing(folder: Path, first: dict):
    stages = folder / "runs/tiny/stages"
    before = {path: path.stat().st_mtime_ns for path in stages.rglob("*")}
    answer = npda("reproduce", "tiny.yaml", cwd=folder)
    assert answer.returncode == 0, answer.stderr
    assert "Nothing to do: every stage was done before." in answer.stdout
    assert {path: path.stat().st_mtime_ns for path in stages.rglob("*")} == before


def test_a_failed_stage_names_its_log_and_the_others_go_on(folder: Path, first: dict, tmp_path: Path):
    """Audio that cannot be read: of the domain's test, so that only the translations fail."""
    runs = shutil.copytree(folder / "runs/tiny", tmp_path / "runs")
    (place,) = (runs / "stages").glob("corpus-domain-de-*")
    (place / "test.tsv").write_text("id\taudio\tn_frames\ttgt_text\nx\tnowhere.wav\t100\tNichts.\n")
    pattern = "translate E2E-ST-Base *"
    answer = npda("reproduce", "tiny.yaml", "--runs", runs, "--from", pattern, "--jobs", 1, cwd=folder)
    assert answer.returncode == 1
    (log,) = (runs / "stages").glob("translate-e2e-st-base-*/log.txt")
    assert str(log) in answer.stdout
    assert "nowhere.wav" in log.read_text()
    assert "—" in (runs / "report/tiny.md").read_text()
    assert "NPDA-kNN-ST" in (runs / "report/tiny.md").read_text()


def test_changed_manifests_are_work_to_do(folder: Path, first: dict, tmp_path: Path):
    for path in (*folder.glob("*.tsv"), folder / "tiny.yaml"):
        shutil.copy(path, tmp_path / path.name)
    changed = tmp_path / "domain-test.tsv"
    runner, options = CliRunner(), ["--runs", str(tmp_path / "runs"), "--dry-run", "--json"]

    def keys() -> dict[str, str]:
        answer = runner.invoke(app, ["reproduce", str(tmp_path / "tiny.yaml"), *options])
        return {stage["name"]: stage["key"] for stage in json.loads(answer.stdout)["stages"]}

    before = keys()
    changed.write_text("\n".join(changed.read_text().splitlines()[:-1]) + "\n")
    after = keys()
    assert before["corpus general de"] == after["corpus general de"]
    assert before["corpus domain de"] != after["corpus domain de"]
    assert before["translate NPDA-kNN-ST there de"] != after["translate NPDA-kNN-ST there de"]


@pytest.mark.parametrize(
    ("recipe", "stages"),
    [
        ("mustc-to-europarl", "translate NPDA-kNN-ST++ to-europarl-pt pt"),
        ("mustc-in-domain", "translate AFS mustc-ru ru"),
        ("mustc-multilingual", "translate Adapter Tuning mustc fr"),
        ("mini", "translate NPDA-kNN-ST general-parliament de"),
        ("mboshi", "translate E2E-JT-ST-MT dico-part fr"),
    ],
)
def test_the_recipes_of_the_project_are_planned_without_their_corpora(recipe: str, stages: str, tmp_path: Path):
    options = ["--dry-run", "--json", "--runs", str(tmp_path / "runs")]
    answer = CliRunner().invoke(app, ["reproduce", str(RECIPES / f"{recipe}.yaml"), *options])
    assert answer.exit_code == 0, answer.output
    assert stages in [stage["name"] for stage in json.loads(answer.stdout)["stages"]]


def test_a_missing_folder_is_told_before_anything_is_begun(tmp_path: Path):
    runs = tmp_path / "runs"
    data = ["--data", f"mustc={tmp_path / 'none'}", "--runs", str(runs)]
    answer = CliRunner().invoke(app, ["reproduce", str(RECIPES / "mustc-in-domain.yaml"), *data])
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception).startswith(f"The corpus 'mustc': There is no folder {tmp_path / 'none'}. MuST-C is")
    assert not runs.exists()


def test_a_missing_file_is_told_with_the_variable_and_the_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NPDA_DATA", str(tmp_path / "corpora"))
    changes = ["--set", "corpora.general.origin=the attic", "--set", "corpora.general.train=$NPDA_DATA/old/train.tsv"]
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    answer = CliRunner().invoke(app, ["reproduce", "tiny.yaml", *changes])
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception) == (
        f"The corpus 'general': There is no file {tmp_path}/corpora/old/train.tsv; it comes from the attic, "
        f"and NPDA_DATA must name the folder that holds old (now {tmp_path}/corpora)."
    )
    answer = CliRunner().invoke(app, ["reproduce", "tiny.yaml"])
    assert str(answer.exception) == (
        f"The corpus 'general': There is no file {tmp_path}/general-train.tsv; change the recipe or put it there."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_a_missing_large_text_is_told_before_anything_is_begun(folder: Path, tmp_path: Path):
    changes = ["--set", "corpora.more={kind: text, train: more.tsv}", "--set", "directions.0.large_text=more"]
    answer = CliRunner().invoke(app, ["reproduce", str(folder / "tiny.yaml"), *changes, "--runs", str(tmp_path / "r")])
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception).startswith(f"The corpus 'more': There is no file {folder}/more.tsv; ")


def test_the_folders_of_corpora_are_looked_at_without_being_read(tmp_path: Path):
    talks = tiny_corpora.talks("general", "train", ("a",), each=1)
    for split in ("train", "dev", "tst-COMMON"):
        tiny_corpora.write_mustc(tmp_path / "m", split, talks)
    for split in ("train", "dev", "test"):
        tiny_corpora.write_europarl_st(tmp_path / "e", split, talks)
    mustc = MustC.model_construct(kind="mustc", root=tmp_path / "m", language=None)
    europarl_st = EuroparlST.model_construct(kind="europarl-st", root=tmp_path / "e", source="en", target=None)
    check_corpus(mustc, "de")
    check_corpus(europarl_st, "de")
    (tmp_path / "m/en-de/data/tst-COMMON/txt/tst-COMMON.de").unlink()
    (tmp_path / "e/en/de/dev/segments.lst").unlink()
    for corpus, missing in ((mustc, "tst-COMMON.de"), (europarl_st, "segments.lst")):
        with pytest.raises(InputError, match=f"There is no file .*{missing}"):
            check_corpus(corpus, "de")
    with pytest.raises(InputError, match=r"unpack de-en\.tgz"):
        check_corpus(Europarl.model_construct(kind="europarl", root=tmp_path / "m", language=None), "de")
