"""Recipes: what they hold, and one clear sentence for every way to get them wrong."""

import contextlib
import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from npda.io.errors import InputError
from npda.reproduce.recipe.loading import parse_yaml
from npda.reproduce.recipe.recipe import PRESETS, MiniCorpus, Recipe, Search, load_recipe

SYSTEMS = ("E2E-ST-Base", "kNN-MT", "NPDA-kNN-ST", "NPDA-kNN-ST+")
TABLES = ("adaptation", "ablation", "datastore-size")

MINI = """\
name: mini
seeds: {corpus: 3}
corpora:
  general:    {kind: mini, domain: general}
  parliament: {kind: mini, domain: parliament, language: fr}
directions:
  - {name: en-de, general: general, domain: parliament, languages: [de]}
model:
  preset: mini
  training: {max_epochs: 9, learning_rate: 2e-3, betas: [0.9, 0.99], clip: null}
systems: [E2E-ST-Base, kNN-MT, NPDA-kNN-ST]
tables: [adaptation]
"""

REAL = """\
name: real
corpora:
  must-de: {kind: mustc, root: data/mustc, language: de}
  must-no: {kind: mustc, language: no}
  ep: {kind: europarl-st, root: /data/ep, target: de}
  big: {kind: europarl, root: ~/europarl, language: de, pairs: 2_000_000}
  own: {kind: manifests, train: a.tsv, dev: ../b.tsv, test: /c.tsv}
  glossary: {kind: text, train: pairs.tsv}
directions:
  - {name: en-de, general: must-de, domain: ep, large_text: big, languages: [de, no]}
systems: [E2E-ST-Base]
"""

NO_RECIPE = (
    ": a recipe has keys (name, seeds, corpora, directions, model, systems, tables, search, voice); "
    "this is something else."
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mini.yaml").write_text(MINI)
    (tmp_path / "real.yaml").write_text(REAL)
    return tmp_path


def load(path: Path, *changes: str, data: tuple[str, ...] = ()) -> Recipe:
    return load_recipe(path, SYSTEMS, TABLES, changes, data)


def test_a_recipe_is_read_with_its_defaults(folder: Path):
    recipe = load(folder / "mini.yaml")
    assert (recipe.seeds.corpus, recipe.seeds.training) == (3, 1)
    assert recipe.corpora["general"] == MiniCorpus(kind="mini", domain="general", language="de")
    assert recipe.directions[0].large_text is None
    assert recipe.model.training == {"max_epochs": 9, "learning_rate": 0.002, "betas": (0.9, 0.99), "clip": None}
    assert recipe.model.alignment == {}
    assert recipe.systems == ("E2E-ST-Base", "kNN-MT", "NPDA-kNN-ST")
    assert recipe.search.beam == 5


def test_presets_and_search_are_those_of_the_model_and_the_decoder():
    from npda.decoding.beam import SearchOptions
    from npda.models.speech2text import PRESETS as MODEL_PRESETS

    assert set(PRESETS) == set(MODEL_PRESETS)
    defaults = dataclasses.asdict(SearchOptions())
    assert Search().model_dump() == {name: defaults[name] for name in ("beam", "length_penalty", "max_length")}


def test_paths_start_from_the_recipe_and_data_from_the_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    monkeypatch.setenv("HOME", "/home/me")
    corpora: dict[str, Any] = dict(load(folder / "real.yaml", data=("must-no=more/mustc",)).corpora)
    assert corpora["must-de"].root == folder / "data/mustc"
    assert corpora["must-no"].root == folder / "here/more/mustc"
    assert corpora["must-no"].language == "no"  # Norwegian, not false
    assert (corpora["ep"].root, corpora["ep"].source) == (Path("/data/ep"), "en")
    assert corpora["big"].root == Path("/home/me/europarl")
    assert corpora["big"].pairs == 2_000_000
    assert [corpora["own"].train, corpora["own"].test] == [folder / "a.tsv", Path("/c.tsv")]
    by_kind: dict[str, Any] = dict(load(folder / "real.yaml", data=("mustc=/m",)).corpora)
    assert [by_kind["must-de"].root, by_kind["must-no"].root] == [Path("/m"), Path("/m")]


def test_data_and_models_lie_where_their_variables_say(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("NPDA_DATA", "~/corpora")
    monkeypatch.delenv("NPDA_MODELS", raising=False)
    changes = ("corpora.glossary.train=$NPDA_DATA/mboshi/words.tsv", "corpora.ep.root=$NPDA_MODELS")
    corpora: dict[str, Any] = dict(load(folder / "real.yaml", *changes, data=("mustc=/m",)).corpora)
    assert corpora["glossary"].train == Path("/home/me/corpora/mboshi/words.tsv")
    assert corpora["ep"].root == folder / "models"  # of the working folder, like the command line's paths
    monkeypatch.setenv("NPDA_DATA", "")
    corpora = dict(load(folder / "real.yaml", *changes, data=("mustc=/m",)).corpora)
    assert corpora["glossary"].train == folder / "data/mboshi/words.tsv"
    inside = "corpora.glossary.train=a/$NPDA_DATA/b.tsv"
    corpora = dict(load(folder / "real.yaml", inside, data=("mustc=/m",)).corpora)
    assert corpora["glossary"].train == folder / "a/$NPDA_DATA/b.tsv"


def test_only_a_domain_must_have_a_test(folder: Path):
    without = "corpora.own={kind: manifests, train: a.tsv, dev: b.tsv, origin: the attic}"
    recipe = load(folder / "real.yaml", without, "directions.0.general=own", data=("mustc=/m",))
    assert not recipe.has_test("own")
    assert recipe.has_test("ep")
    copy = folder / "copy.yaml"
    recipe.write(copy)
    assert load(copy) == recipe
    with pytest.raises(InputError, match=r"directions\[0\]\.domain: 'own' has no test, which a domain must have\."):
        load(folder / "real.yaml", without, "directions.0.domain=own", data=("mustc=/m",))


def test_the_resolved_recipe_is_a_recipe_wherever_it_is_put(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    recipe = load(folder / "real.yaml", "model.training.betas=[0.5, 0.6]", data=("mustc=/m",))
    copy = tmp_path_factory.mktemp("run") / "recipe.yaml"
    recipe.write(copy)
    assert load(copy) == recipe
    assert load(copy).resolved() == recipe.resolved() == yaml.safe_load(copy.read_text())
    assert recipe.resolved()["model"]["training"] == {"betas": [0.5, 0.6]}


def test_set_puts_values_in_their_places(folder: Path):
    recipe = load(
        folder / "mini.yaml",
        "model.training.max_epochs=3",
        "model.alignment.schedule=constant",
        "search.beam=1",
        "directions.0.languages=[fr]",
        "systems=[kNN-MT]",
        "model.training.spec_augment=null",
    )
    assert recipe.model.training["max_epochs"] == 3
    assert recipe.model.training["spec_augment"] is None
    assert recipe.model.alignment == {"schedule": "constant"}
    assert recipe.search.beam == 1
    assert recipe.directions[0].languages == ("fr",)
    assert recipe.systems == ("kNN-MT",)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "systems=[kNN-MT, E2E-ST-Base, NPDA-kNN-TS]",
            "systems[2]: unknown system 'NPDA-kNN-TS'; did you mean 'NPDA-kNN-ST'?",
        ),
        ("systems=[npda-knn-st+]", "systems[0]: unknown system 'npda-knn-st+'; did you mean 'NPDA-kNN-ST+'?"),
        ("systems=[kNN-MT, kNN-MT]", "systems: 'kNN-MT' stands there twice; remove one of them."),
        ("systems=[]", "systems: must have something in it, not []."),
        ("systems=kNN-MT", "systems: must be a list, not 'kNN-MT'."),
        (
            "systems=[[1]]",
            "systems[0]: unknown system '[1]'; there are E2E-ST-Base, kNN-MT, NPDA-kNN-ST, NPDA-kNN-ST+.",
        ),
        ("tables=[adaption]", "tables[0]: unknown table 'adaption'; did you mean 'adaptation'?"),
        ("tabels=[]", "unknown key 'tabels'; did you mean 'tables'?"),
        ("name=a/b", "name: a name holds letters, digits, «-», «_» and «+» only, unlike 'a/b'."),
        ("seeds.corpus=-1", "seeds.corpus: must be greater than or equal to 0, not -1."),
        ("seeds.corpus=true", "seeds.corpus: must be a whole number, not True."),
        ("seeds=3", "seeds: must have keys (corpus, training), not 3."),
        ("model.trainig={}", "model: unknown key 'trainig'; did you mean 'training'?"),
        ("model.preset=miny", "model.preset: unknown preset 'miny'; did you mean 'mini'?"),
        ("model.training.max_epoch=1", "model.training: unknown key 'max_epoch'; did you mean 'max_epochs'?"),
        ("model.training.max_epochs=1.5", "model.training: max_epochs: must be a whole number, not 1.5."),
        ("model.training.max_epochs=0", "model: training: max_epochs must be above 0, not 0."),
        ("model.alignment.betas=[1, 2]", "model: alignment: betas must be two numbers in [0, 1), not (1.0, 2.0)."),
        ("model.training.learning_rate=.inf", "model.training: learning_rate: must be a finite number, not inf."),
        ("search.beam=0", "search.beam: must be greater than 0, not 0."),
        ("corpora={}", "corpora: must have something in it, not {}."),
        ("corpora.general.kind=minni", "corpora.general: unknown kind 'minni'; did you mean 'mini'?"),
        (
            "corpora.general={}",
            "corpora.general: must have a key 'kind' (mini, mustc, europarl-st, europarl, manifests, talks, text).",
        ),
        (
            "corpora.general.domain=parlament",
            "corpora.general.domain: unknown domain 'parlament'; did you mean 'parliament'?",
        ),
        ("corpora.general.domian=general", "corpora.general: unknown key 'domian'; did you mean 'domain'?"),
        (
            "corpora.new={kind: mustc, language: de}",
            "corpora.new: the key 'root' is missing; add it, or give the folder with --data NAME=DIR.",
        ),
        ("corpora.new={kind: text, train: 3}", "corpora.new.train: must be a path, not 3."),
        (
            "corpora.new={kind: text, train: $NPDA_DATE/a.tsv}",
            "corpora.new.train: unknown variable '$NPDA_DATE'; did you mean '$NPDA_DATA'?",
        ),
        (
            "corpora.new={kind: text, train: $HOME/a.tsv}",
            "corpora.new.train: unknown variable '$HOME'; there are $NPDA_DATA, $NPDA_MODELS.",
        ),
        ("corpora.new={kind: manifests, train: a, dev: b, test: 3}", "corpora.new.test: must be a path, not 3."),
        (
            "corpora.a b={kind: mini, domain: general}",
            "corpora.a b: a name holds letters, digits, «-», «_» and «+» only, unlike 'a b'.",
        ),
        ("directions.0.general=genral", "directions[0].general: unknown corpus 'genral'; did you mean 'general'?"),
        (
            "directions.0.large_text=big",
            "directions[0].large_text: unknown corpus 'big'; there are general, parliament.",
        ),
        (
            "directions.0.languages=[German]",
            "directions[0].languages[0]: must be a language code such as de, not 'German'.",
        ),
        ("directions=[]", "directions: must have something in it, not []."),
        (
            "directions.0=null",
            "directions[0]: must have keys (name, general, domain, large_text, languages, systems), not None.",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_place(folder: Path, change: str, sentence: str):
    path = folder / "mini.yaml"
    with pytest.raises(InputError) as caught:
        load(path, change)
    assert str(caught.value) == f"{path}: {sentence}"


def test_two_directions_need_two_names(folder: Path):
    directions = "directions=[" + ",".join(["{name: x, general: general, domain: general, languages: [de]}"] * 2) + "]"
    with pytest.raises(InputError, match=r"directions\[1\]\.name: 'x' is taken by another direction\."):
        load(folder / "mini.yaml", directions)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("model", "--set model: give KEY=VALUE, for instance model.training.max_epochs=3."),
        ("model.=1", "--set model.=1: give KEY=VALUE, for instance model.training.max_epochs=3."),
        ("directions.1.name=x", "--set directions.1.name=x: '1' is not a position in a list of 1; they count from 0."),
        ("directions.x=1", "--set directions.x=1: 'x' is not a position in a list of 1; they count from 0."),
        ("name.x=1", "--set name.x=1: there is nothing inside 'mini' that could be called 'x'."),
        ("systems=[", "--set systems=[, line 1: expected the node content, but found '<stream end>'."),
    ],
)
def test_a_wrong_set_is_told(folder: Path, change: str, sentence: str):
    with pytest.raises(InputError) as caught:
        load(folder / "mini.yaml", change)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("mustc", "--data mustc: give NAME=DIR, for instance mustc=/data/mustc."),
        ("must-da=/m", "--data must-da=/m: unknown corpus 'must-da'; did you mean 'must-de'?"),
    ],
)
def test_a_wrong_folder_is_told(folder: Path, data: str, sentence: str):
    with pytest.raises(InputError) as caught:
        load(folder / "real.yaml", data=(data,))
    assert str(caught.value) == sentence


def test_a_folder_for_a_corpus_without_one_is_told(folder: Path):
    sentence = r"corpora\.general: unknown key 'root'; there are kind, domain, language, pairs\."
    with pytest.raises(InputError, match=sentence):
        load(folder / "mini.yaml", data=("general=/m",))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("name: a\nseeds: {}\nname: b\n", ", line 3: the key 'name' stands in line 1 already; remove one of them."),
        (
            "name: a\nseeds:\n  corpus: 1\n  corpus: 2\n",
            ", line 4: the key 'corpus' stands in line 3 already; remove one of them.",
        ),
        ("name: a\n1: b\n", ", line 2: the key 1 is not a word; put it in quotes."),
        ("name: &x a\nseeds: *x\n", ", line 2: aliases (*name) are not allowed; write it out."),
        ("name: a\n  b: c\n", ", line 2: mapping values are not allowed here."),
        (
            "name: !!python/name:os.getcwd\n",
            ", line 1: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.getcwd'.",
        ),
        (
            "- a\n",
            NO_RECIPE,
        ),
        (
            "",
            NO_RECIPE,
        ),
        ("name: a\n", ": the key 'corpora' is missing."),
        ("[" * 1000, ": nested too deeply."),
        ("a" * 300_000, " is larger than 256 KiB, so it is not a recipe."),
        (b"name: a\nx: \xff\n", ", line 2: not UTF-8; save the file as UTF-8."),
    ],
)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, content: str | bytes, sentence: str):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path}{sentence}"


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(InputError, match=r"none\.yaml cannot be read: No such file or directory\."):
        load(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-3", 0.002),
        ("-1.5E2", -150.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("1_000", 1000),
        ("-7", -7),
        ("010", "010"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("", None),
        ("~", None),
        ("null", None),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("1e", "1e"),
        ("[de, no]", ["de", "no"]),
        ("{<<: {a: 1}}", {"<<": {"a": 1}}),
    ],
)
def test_words_and_numbers_are_read_as_a_person_would(text: str, value: Any):
    found = parse_yaml(text, "here")
    assert (found, type(found)) == (value, type(value))


@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,?~ \n\t01.eE_<\x00\u2028é", max_size=40))
def test_no_text_gets_past_the_sentences(text: str):
    with contextlib.suppress(InputError):
        parse_yaml(text, "here")


def test_recipes_do_without_torch():
    code = "import sys, npda.reproduce.recipe.recipe, npda.stages.run_display; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
