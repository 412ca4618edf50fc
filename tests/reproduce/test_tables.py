"""Tables from stages made up by hand, so that every figure in them is known beforehand."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_store
import yaml
from page_reader import Page, check_stands_alone

from npda.evaluation.scores import bleu, chrf
from npda.io.files import write_lines
from npda.report.table import Table
from npda.reproduce.planning import RecipePlan, plan_recipe
from npda.reproduce.recipe.recipe import Recipe, load_recipe
from npda.reproduce.report import csv_of, markdown, page, record, write_report
from npda.reproduce.tables.score_cells import arrow_of, average_cell
from npda.reproduce.tables.tables import TABLES, make_tables
from npda.systems.catalogue import SYSTEMS

SENTENCE = "der Rat hat heute den Antrag der Kommission über den Haushalt und die Fischerei mit großer Mehrheit"
REFERENCES = [" ".join(np.random.default_rng(seed).permutation(SENTENCE.split())[:9]) for seed in range(60)]

RECIPE = {
    "name": "made-up",
    "corpora": {
        "talks": {"kind": "manifests", "train": "a.tsv", "dev": "a.tsv", "test": "a.tsv"},
        "parliament": {"kind": "manifests", "train": "b.tsv", "dev": "b.tsv", "test": "b.tsv"},
        "laws": {"kind": "text", "train": "c.tsv"},
    },
    "directions": [
        {"name": "there", "general": "talks", "domain": "parliament", "large_text": "laws", "languages": ["de"]},
        {
            "name": "home",
            "general": "talks",
            "domain": "talks",
            "languages": ["de", "fr"],
            "systems": ["E2E-ST-Base", "kNN-MT"],
        },
    ],
    "systems": [
        "E2E-ST-Base",
        "E2E-ST-FT",
        "kNN-MT",
        "Shallow Fusion",
        "NPDA-kNN-ST",
        "NPDA-kNN-ST+",
        "NPDA-kNN-ST++",
        "NPDA-kNN-ST w/o MSE",
        "Cascade-ST",
        "Cascade-ST*",
        "Adaptive kNN",
        "Efficient kNN (pruned)",
    ],
    "tables": list(TABLES),
}

# How many of the nine words of every sentence a system gets right, those it adapts to and those it comes from.
RIGHT = {
    "E2E-ST-Base": (6, 9),
    "E2E-ST-FT": (8, 7),
    "kNN-MT": (8, 8),
    "Shallow Fusion": (6, 9),
    "NPDA-kNN-ST": (7, 8),
    "NPDA-kNN-ST+": (9, 6),
    "NPDA-kNN-ST w/o MSE": (5, 8),
    "Cascade-ST": (8, 8),
    "Adaptive kNN": (7, 8),
    "Efficient kNN (pruned)": (7, 8),
}


def hypotheses(right: int) -> list[str]:
    return [" ".join(sentence.split()[:right] + ["?"] * (9 - right)) for sentence in REFERENCES]


def load(directory: Path, content: dict, *changes: str) -> Recipe:
    path = directory / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return load_recipe(path, tuple(SYSTEMS), TABLES, changes)


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def made_up(directory: Path, plan: RecipePlan) -> dict[str, Path]:
    """The stages of all systems but NPDA-kNN-ST++ and Cascade-ST*, which failed."""
    places = {stage.name: directory / str(number) for number, stage in enumerate(plan.stages)}
    done = {}
    for trial in plan.trials:
        if trial.system.name not in RIGHT:
            continue
        ends = dict.fromkeys((trial.direction.domain, trial.direction.general))
        result: dict = {"bleu": {}, "seconds": {}, "signature": "nrefs:1"}
        done[trial.translation] = places[trial.translation]
        for corpus, right in zip(ends, RIGHT[trial.system.name], strict=False):
            write_lines(places[trial.translation] / f"{corpus}.txt", hypotheses(right))
            write_lines(places[trial.translation] / f"{corpus}.reference.txt", REFERENCES)
            result["bleu"][corpus] = bleu(hypotheses(right), REFERENCES).value
            result["seconds"][corpus] = 2.5
        write_json(places[trial.translation] / "result.json", result)
        if trial.system.name == "Efficient kNN (pruned)":
            tiny_store.store_of(places[trial.translation] / "store", [tiny_store.clustered(15, dim=8)])
        if trial.similarity:
            done[trial.similarity] = places[trial.similarity]
            write_json(places[trial.similarity] / "result.json", {"cosine": 0.75, "squared_distance": 3.25})
        if trial.tuning:
            done[trial.tuning] = places[trial.tuning]
            knn = {"best": {"k": 8, "lambda": 0.5, "temperature": 10}}
            chosen = {"weight": 0.25} if trial.system.language_model else knn
            write_json(places[trial.tuning] / "tuning.json", {**chosen, "bleu": 51.5, "base_bleu": 40.0})
        if trial.store and not (places[trial.store] / "store").exists():
            done[trial.store] = places[trial.store]
            tiny_store.store_of(places[trial.store] / "store", [tiny_store.clustered(40, dim=8)])
    for stage in (*plan.sizes.values(), *plan.speeds.values()):
        done[stage] = places[stage]
    (size,), (speed,) = plan.sizes.values(), plan.speeds.values()
    points = [{"fraction": f, "pairs": int(100 * f), "keys": int(900 * f), "bleu": 30 + f} for f in (0.2, 1.0)]
    write_json(places[size] / "result.json", points)
    rows = [{"k": k, "batch": b, "base": 0.5, "ratio": 1 + k / b} for k in (4, 8) for b in (1, 8)]
    write_json(places[speed] / "result.json", rows)
    parameters = {
        "translator of talks": (1000, 1000),
        "fine-tuned": (1000, 1000),
        "aligned": (1500, 500),
        "language model": (200, 200),
        "recogniser": (1000, 1000),
        "text translator": (900, 900),
    }
    for stage in plan.stages:
        for name, (total, tuned) in parameters.items():
            if stage.name.startswith(name):
                done[stage.name] = places[stage.name]
                counts = {"total": total * 1000, "tuned": tuned * 1000}
                write_json(places[stage.name] / "parameters.json", counts)
    return done


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    directory = tmp_path_factory.mktemp("stages")
    recipe = load(directory, RECIPE)
    plan = plan_recipe(recipe)
    return {table.name: table for table in make_tables(recipe, plan, made_up(directory, plan))}


def rows(table: Table, by: str = "system") -> dict[Any, dict]:
    """By name; the last one of a name counts."""
    names = [cell.value for cell in table.column(by)]
    return {name: dict(zip(table.columns, row, strict=True)) for name, row in zip(names, table.rows, strict=True)}


def test_every_table_is_there(tables: dict[str, Table]):
    assert {table.kind for table in tables.values()} == set(TABLES)


def test_arrows_follow_the_bootstrap_against_the_right_baseline(tables: dict[str, Table]):
    found = rows(tables["adaptation-talks-parliament"])
    elsewhere = ("NPDA-kNN-ST w/o MSE", "Cascade-ST", "Cascade-ST*", "Adaptive kNN", "Efficient kNN (pruned)")
    assert list(found) == [system for system in RECIPE["systems"] if system not in elsewhere]
    scores = {name: row["de"] for name, row in found.items()}
    assert [scores[name].arrow for name in ("E2E-ST-FT", "NPDA-kNN-ST", "Shallow Fusion")] == ["⇑", "⇑", ""]
    assert scores["E2E-ST-Base"].p is None
    assert scores["NPDA-kNN-ST+"].against == "E2E-ST-FT"
    assert scores["NPDA-kNN-ST+"].value == pytest.approx(100)
    assert scores["NPDA-kNN-ST+"].best
    assert scores["NPDA-kNN-ST"].p is not None
    assert scores["NPDA-kNN-ST"].p < 0.01
    assert rows(tables["ablation-talks-parliament"])["NPDA-kNN-ST w/o MSE"]["BLEU"].arrow == "⇓"


def test_without_its_baseline_a_system_is_compared_with_the_base(tmp_path: Path):
    recipe = load(tmp_path, RECIPE, "systems=[E2E-ST-Base, NPDA-kNN-ST, NPDA-kNN-ST+]")
    plan = plan_recipe(recipe)
    table = make_tables(recipe, plan, made_up(tmp_path, plan))[0]
    assert rows(table)["NPDA-kNN-ST+"]["de"].against == "E2E-ST-Base"


def test_gain_price_and_parameters(tables: dict[str, Table]):
    found = rows(tables["adaptation-talks-parliament"])
    six, seven = (bleu(hypotheses(right), REFERENCES).value for right in (6, 7))
    assert found["NPDA-kNN-ST"]["Δ"].value == pytest.approx(seven - six)
    assert found["E2E-ST-Base"]["on talks"].value == pytest.approx(100)
    assert found["NPDA-kNN-ST+"]["on talks"].value == pytest.approx(six)
    tuned = {name: (row["tuned M"].value, row["total M"].value) for name, row in found.items()}
    assert tuned["E2E-ST-Base"] == tuned["kNN-MT"] == (0, 1_000_000)
    assert tuned["E2E-ST-FT"] == (1_000_000, 1_000_000)
    assert tuned["Shallow Fusion"] == (200_000, 1_200_000)
    assert tuned["NPDA-kNN-ST"] == (500_000, 1_500_000)
    assert tuned["NPDA-kNN-ST++"] == (1_500_000, 1_500_000)
    cascades = rows(tables["cascade-talks-parliament"])
    assert cascades["Cascade-ST"]["tuned M"].value == cascades["Cascade-ST"]["total M"].value == 1_900_000
    ticks = [name for name, cell in found["NPDA-kNN-ST+"].items() if cell.value is True]
    assert ticks == ["general speech", "large text"]


def test_what_failed_is_a_dash_and_is_named(tables: dict[str, Table]):
    table = tables["adaptation-talks-parliament"]
    failed = rows(table)["NPDA-kNN-ST++"]
    assert [failed[column].text for column in ("de", "Δ", "on talks")] == ["—"] * 3
    assert any("translate NPDA-kNN-ST++ there de" in note for note in table.notes)
    assert table.notes[-1] == "BLEU|nrefs:1"
    assert rows(tables["cascade-talks-parliament"])["Cascade-ST*"]["de"].value is None
    assert rows(tables["tuned"])["NPDA-kNN-ST++"]["k"].text == "—"


def test_nothing_done_gives_tables_of_dashes(tmp_path: Path):
    recipe = load(tmp_path, RECIPE)
    empty = make_tables(recipe, plan_recipe(recipe), {})
    assert {table.kind for table in empty} == set(TABLES)
    assert rows(empty[0])["NPDA-kNN-ST"]["de"].text == "—"
    assert "NPDA-kNN-ST" in page(recipe, empty)


def test_one_model_of_several_languages_has_an_average(tables: dict[str, Table]):
    table = tables["in-domain-talks"]
    assert table.columns == ("setting", "system", "tuned M", "total M", "de", "fr", "avg")
    found = rows(table)
    assert found["kNN-MT"]["setting"].text == "multilingual"
    assert found["kNN-MT"]["avg"].of == {"de": found["kNN-MT"]["de"].value, "fr": found["kNN-MT"]["fr"].value}
    assert found["E2E-ST-Base"]["tuned M"].value == 1_000_000  # in domain the base itself is what was trained


def test_measured_tables(tables: dict[str, Table]):
    assert [cell.value for cell in tables["datastore-size"].column("BLEU")] == [30.2, 31.0]
    tuned = rows(tables["tuned"])
    assert [tuned["NPDA-kNN-ST"][name].value for name in ("k", "λ", "T")] == [8, 0.5, 10]
    assert tuned["Shallow Fusion"]["weight"].value == 0.25
    stores = rows(tables["datastores"])["NPDA-kNN-ST"]
    assert stores["entries"].value == 40
    assert stores["B/key"].value == pytest.approx((40 * 8 * 2 + 128) / 40)  # NumPy's header is 128 bytes long
    speed = rows(tables["speed-there-de"], by="k")
    assert [speed[4][f"batch {batch}"].text for batch in (1, 8)] == ["×5.00", "×1.50"]
    assert rows(tables["ablation-talks-parliament"])["NPDA-kNN-ST"]["cosine"].value == 0.75
    variants = rows(tables["variants-talks-parliament"])
    assert variants["Adaptive kNN"]["seconds"].value == 2.5
    entries = {name: row["entries"].value for name, row in variants.items()}
    assert entries == {"NPDA-kNN-ST": 40, "Adaptive kNN": 40, "Efficient kNN (pruned)": 15}


def test_all_metrics_stand_side_by_side_with_a_test_each(tables: dict[str, Table]):
    found = rows(tables["metrics-talks-parliament"])
    assert found["NPDA-kNN-ST"]["BLEU"].value == pytest.approx(bleu(hypotheses(7), REFERENCES).value)
    assert found["NPDA-kNN-ST"]["chrF"].value == pytest.approx(chrf(hypotheses(7), REFERENCES).value)
    assert found["NPDA-kNN-ST"]["p"].value == rows(tables["adaptation-talks-parliament"])["NPDA-kNN-ST"]["de"].p
    assert found["NPDA-kNN-ST"]["p of chrF"].value < 0.01
    assert found["NPDA-kNN-ST"]["cosine"].value == 0.75
    assert found["kNN-MT"]["cosine"].text == found["E2E-ST-Base"]["p"].text == ""
    # The wrong words are all punctuation: without it the sentences are shorter, and nothing in them is wrong.
    bare = [sentence.replace(" ?", "").lower() for sentence in hypotheses(7)]
    assert found["NPDA-kNN-ST"]["plain BLEU"].value == bleu(bare, [text.lower() for text in REFERENCES]).value
    assert found["NPDA-kNN-ST++"]["BLEU"].text == "—"
    assert "metrics-talks-talks-multilingual" in tables


def test_the_paper_stands_beside_its_own_setting_only(tmp_path: Path, tables: dict[str, Table]):
    assert all(cell.paper is None for table in tables.values() for row in table.rows for cell in row)
    recipe = load_recipe(Path(__file__).parents[2] / "recipes" / "mustc-to-europarl.yaml", tuple(SYSTEMS), TABLES)
    made = {table.name: table for table in make_tables(recipe, plan_recipe(recipe), {})}
    there = rows(made["adaptation-mustc-europarl-st"])
    assert list(there["NPDA-kNN-ST"])[7:15] == ["de", "fr", "es", "nl", "it", "ro", "pt", "avg"]
    assert [there["NPDA-kNN-ST+"][column].paper for column in ("de", "pt", "avg")] == [23.23, 28.96, 30.13]
    assert there["NPDA-kNN-ST"]["tuned M"].paper == 17.1
    assert rows(made["adaptation-europarl-st-mustc"])["E2E-ST-Base"]["it"].paper == 1.94
    assert rows(made["ablation-mustc-europarl-st"])["NPDA-kNN-ST w/o MSE"]["cosine"].paper is None  # of the average
    back = [row for row in made["tuned"].rows if row[0].text == "to-mustc-ro" and row[2].text == "NPDA-kNN-ST"]
    assert [cell.paper for cell in back[0][3:6]] == [32, 0.3, 10]
    assert there["Shallow Fusion"]["system"].text == "Shallow Fusion"  # with Europarl v7, as in the paper


def test_a_recipe_of_the_embedded_corpus_says_so(tmp_path: Path):
    recipe = load_recipe(Path(__file__).parents[2] / "recipes" / "mini.yaml", tuple(SYSTEMS), TABLES)
    made = make_tables(recipe, plan_recipe(recipe), {})
    assert all(table.title.endswith("(mini)") for table in made)
    sentence = "mini: embedded corpus, only the order of systems compares with the paper."
    assert sentence in markdown(recipe, made)
    assert sentence in page(recipe, made)
    assert record(recipe, made)["notes"] == [sentence]


@pytest.mark.parametrize(
    ("delta", "p", "arrow"),
    [(1, 0.001, "⇑"), (1, 0.02, "↑"), (1, 0.05, ""), (-1, 0.009, "⇓"), (-1, 0.04, "↓"), (0, 0.001, "")],
)
def test_arrows(delta: float, p: float, arrow: str):
    assert arrow_of(delta, p) == arrow


def test_an_average_needs_all_of_its_parts():
    assert average_cell({"de": 1.0, "fr": 2.0}).value == 1.5
    assert average_cell({"de": 1.0, "fr": None}).value is None


def test_the_report_is_well_formed(tmp_path: Path, tables: dict[str, Table]):
    recipe = load(tmp_path, RECIPE)
    files = write_report(tmp_path / "report", recipe, list(tables.values()))
    page = Page(files.page.read_text(encoding="utf-8"))
    check_stands_alone(page)
    assert len(page.find("table")) == len(tables)
    assert len(page.find("svg")) == 4  # adaptation, cascade, size, speed

    text = files.markdown.read_text(encoding="utf-8")
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) <= 1
    assert "| Cascade-ST\\* |" in text
    assert json.loads(files.json.read_text(encoding="utf-8"))["recipe"] == "made-up"
    assert all(path.is_file() for path in files.csv)


def test_csv_and_json_keep_full_precision(tmp_path: Path, tables: dict[str, Table]):
    table = tables["adaptation-talks-parliament"]
    lines = list(csv.DictReader(io.StringIO(csv_of(table))))
    ours = next(line for line in lines if line["system"] == "NPDA-kNN-ST")
    exact = bleu(hypotheses(7), REFERENCES).value
    assert float(ours["de"]) == exact
    assert ours["de against"] == "E2E-ST-Base"
    assert next(line for line in lines if line["system"] == "NPDA-kNN-ST++")["de"] == ""
    cell = next(row for row in table.record()["rows"] if row["system"]["value"] == "NPDA-kNN-ST")["de"]
    assert cell == {
        "text": f"{exact:.2f}",
        "value": exact,
        "p": float(ours["de p"]),
        "against": "E2E-ST-Base",
        "arrow": "⇑",
    }
