"""Recipes around a model that somebody else has trained: a tiny Whisper, from its directory to the tables."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_store
import tiny_training
import tiny_whisper

from npda.corpus.manifest import read_manifest, write_manifest
from npda.corpus.pairs import Pair, write_pairs
from npda.reproduce.recipe.recipe import load_recipe
from npda.reproduce.tables.tables import TABLES
from npda.systems.catalogue import SYSTEMS

SYSTEMS_HERE = ["E2E-ST-Base", "kNN-MT", "NPDA-kNN-ST", "NPDA-kNN-ST w/o copying", "Spoken text"]
RECIPE = f"""\
name: whisper
corpora:
  general: {{kind: manifests, train: general-train.tsv, dev: general-dev.tsv, text: more.tsv}}
  domain: {{kind: manifests, train: domain-train.tsv, dev: domain-dev.tsv, test: domain-test.tsv, text: more.tsv}}
model:
  pretrained: $NPDA_MODELS/tiny-whisper
  source_language: de
  alignment: {{max_epochs: null, max_updates: 3}}
voice: espeak:de@400
systems: {json.dumps(SYSTEMS_HERE)}
directions:
  - {{name: there, general: general, domain: domain, languages: [en]}}
tables: [adaptation, ablation, datastores]
search: {{beam: 1, max_length: 8}}
"""


# Spoken is a language without a tag, which goes by another's; German, which the model does not write, is learnt.
FINE_TUNED = """\
name: further
corpora:
  general: {kind: manifests, train: general-train.tsv, dev: general-dev.tsv}
  domain: {kind: manifests, train: domain-train.tsv, dev: domain-dev.tsv, test: domain-test.tsv}
model:
  pretrained: $NPDA_MODELS/tiny-whisper
  source_language: en
  fine_tune: true
  training: {max_epochs: null, max_updates: 4, warmup: 1}
  alignment: {max_epochs: null, max_updates: 3}
systems: [E2E-ST-Base, E2E-ST-SP, E2E-ST-FT, kNN-MT, NPDA-kNN-ST]
directions:
  - {name: there, general: general, domain: domain, languages: [de]}
tables: [adaptation]
search: {beam: 1, max_length: 8}
"""


def corpora(directory: Path, source: str, target: str) -> None:
    for corpus, seed in (("general", 0), ("domain", 10)):
        for number, (split, count) in enumerate((("train", 6), ("dev", 3), ("test", 3))):
            made = tiny_training.utterances(directory / "audio", count, seed + number, src_lang=source, tgt_lang=target)
            write_manifest(directory / f"{corpus}-{split}.tsv", made)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pretrained")
    corpora(directory, "de", "en")
    given_away = [Pair(u.src_text, u.tgt_text) for u in read_manifest(directory / "domain-test.tsv")]
    write_pairs(directory / "more.tsv", [*tiny_store.pairs(9), *given_away])
    (directory / "whisper.yaml").write_text(RECIPE)
    return directory


def npda(folder: Path, models: Path, recipe: str = "whisper.yaml") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from npda.cli import main; main()", "reproduce", recipe, "--json"]
    environment = {"NPDA_MODELS": str(models), "PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "passive"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, cwd=folder, env=environment
    )


def test_a_missing_model_is_told_with_its_variable(folder: Path, tmp_path: Path):
    answer = npda(folder, tmp_path)
    assert answer.returncode == 2
    assert "tiny-whisper" in answer.stderr
    assert "NPDA_MODELS" in answer.stderr


def test_every_system_of_a_pretrained_model(folder: Path, tmp_path: Path):
    tiny_whisper.backbone(source_language=None).save_pretrained(tmp_path / "tiny-whisper")
    answer = npda(folder, tmp_path)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    adaptation, ablation, datastores = found["tables"]
    rows = {row["system"]["value"]: row for row in adaptation["rows"]}
    assert list(rows) == ["E2E-ST-Base", "kNN-MT", "NPDA-kNN-ST", "Spoken text"]
    assert rows["E2E-ST-Base"]["tuned M"]["value"] == 0
    assert 0 < rows["NPDA-kNN-ST"]["tuned M"]["value"] < rows["NPDA-kNN-ST"]["total M"]["value"]
    assert any(row["system"]["value"] == "NPDA-kNN-ST w/o copying" for row in ablation["rows"])
    # The text has nine pairs but for those that give away the test set, the speech six utterances.
    entries = [row["entries"]["value"] for row in datastores["rows"]]
    assert len(entries) >= 1
    kinds = {
        json.loads(path.read_text())["sources"][0]["kind"]: json.loads(path.read_text())["sources"][0]["sentences"]
        for path in (folder / "runs/whisper/stages").glob("store-of-*/store/datastore.json")
    }
    assert kinds == {"speech": 6, "text": 9, "spoken": 9}


def test_every_system_of_a_model_trained_further(tmp_path: Path):
    tiny_whisper.backbone(source_language=None).save_pretrained(tmp_path / "tiny-whisper")
    corpora(tmp_path, "mdw", "de")
    (tmp_path / "further.yaml").write_text(FINE_TUNED)
    answer = npda(tmp_path, tmp_path, "further.yaml")
    assert answer.returncode == 0, answer.stderr
    rows = {row["system"]["value"]: row for row in json.loads(answer.stdout)["tables"][0]["rows"]}
    assert list(rows) == ["E2E-ST-Base", "E2E-ST-SP", "E2E-ST-FT", "kNN-MT", "NPDA-kNN-ST"]
    tuned, total = (rows["E2E-ST-FT"][name]["value"] for name in ("tuned M", "total M"))
    assert 0 < tuned < total
    stages = tmp_path / "runs/further/stages"
    for stage in ("translator-of-general-de", "translator-of-domain-de", "fine-tuned-general-domain-de"):
        (found,) = stages.glob(f"{stage}*")
        kept = json.loads((found / "model" / "generation_config.json").read_text())
        assert (kept["language"], kept["target_language"], kept["silence"]) == ("en", "de", 0.5)


def test_what_is_for_a_pretrained_model_needs_one(folder: Path, tmp_path: Path):
    from npda.io.errors import InputError

    text = RECIPE.replace("pretrained: $NPDA_MODELS/tiny-whisper", "fine_tune: true")
    (tmp_path / "wrong.yaml").write_text(text)
    with pytest.raises(InputError, match="model: fine_tune, silence and transcript_weight are for a pretrained model"):
        load_recipe(tmp_path / "wrong.yaml", list(SYSTEMS), TABLES)


def test_a_voice_is_asked_for_before_anything_runs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from npda.io.errors import InputError
    from npda.reproduce.planning import plan_recipe

    monkeypatch.setenv("NPDA_MODELS", str(tmp_path))
    recipe = load_recipe(folder / "whisper.yaml", list(SYSTEMS), TABLES, ['voice=""'])
    with pytest.raises(InputError, match="give the recipe one, such as espeak"):
        plan_recipe(recipe)


def test_a_large_model_is_estimated_to_take_longer(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from npda.reproduce.planning import plan_recipe

    monkeypatch.setenv("NPDA_MODELS", str(tmp_path))
    recipe = load_recipe(folder / "whisper.yaml", list(SYSTEMS), TABLES)
    small = recipe.model_copy(update={"model": recipe.model.model_copy(update={"pretrained": None})})
    large, own = ({stage.name: stage.cost for stage in plan_recipe(made).stages} for made in (recipe, small))
    assert large["tune kNN-MT there en"] > 10 * own["tune kNN-MT there en"]
    assert large["corpus domain en"] == own["corpus domain en"]
