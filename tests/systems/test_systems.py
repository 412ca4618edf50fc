"""The catalogue of systems against the paper's tables, and the stages that a recipe makes of it."""

from pathlib import Path

import pytest

from npda.io.errors import InputError
from npda.reproduce.planning import RecipePlan, plan_recipe
from npda.reproduce.recipe.recipe import load_recipe
from npda.reproduce.tables.tables import TABLES
from npda.systems.catalogue import MODELS, SYSTEMS, meant

# The ticks of tables 1 and 10: MuST-C, Europarl-ST and Europarl-MT (the two systems without the large text: NOTES).
TICKS = {
    "E2E-ST-Base": {"general speech"},
    "E2E-ST-SP": {"domain speech"},
    "E2E-ST-FT": {"general speech", "domain speech"},
    "kNN-MT": {"general speech", "domain speech"},
    "Shallow Fusion": {"general speech", "large text"},
    "E2E-JT-ST-MT": {"general speech", "large text"},
    "NPDA-kNN-ST": {"general speech", "domain text"},
    "NPDA-kNN-ST+": {"general speech", "large text"},
    "NPDA-kNN-ST++": {"general speech", "domain speech", "large text"},
    "Cascade-ST": {"general speech", "large text"},
    "Cascade-ST*": {"general speech", "large text"},
}

RECIPE = """
name: all
corpora:
  general: {{kind: mini, domain: general}}
  parliament: {{kind: mini, domain: parliament}}
  more: {{kind: mini, domain: parliament, pairs: 100}}
directions:
  - {{name: there, general: general, domain: parliament, languages: [de]{more}}}
  - {{name: back, general: parliament, domain: general, languages: [de], systems: [E2E-ST-Base, NPDA-kNN-ST]}}
systems: {systems}
voice: espeak:en-us
tables: [datastore-size, speed]
"""


def planned(folder: Path, systems: list[str], more: str = ", large_text: more") -> RecipePlan:
    path = folder / "all.yaml"
    path.write_text(RECIPE.format(systems=systems, more=more))
    return plan_recipe(load_recipe(path, tuple(SYSTEMS), TABLES))


@pytest.mark.parametrize("name", TICKS)
def test_a_system_has_seen_what_the_paper_says(name: str):
    assert SYSTEMS[name].data(large=True) == TICKS[name]


def test_text_systems_take_the_domain_text_where_there_is_no_larger():
    assert SYSTEMS["Shallow Fusion"].data(large=False) == {"general speech", "domain text"}
    assert meant("most text", large=True) == "large text"


def test_everything_named_is_there():
    for system in SYSTEMS.values():
        assert all(name in MODELS for name in system.models())
        assert system.baseline is None or system.baseline in SYSTEMS
    for model in MODELS.values():
        assert all(name in MODELS for name in (model.start, model.vocabulary, model.encoder) if name is not None)


def test_every_system_has_its_stages_and_each_stage_what_it_needs(tmp_path: Path):
    plan = planned(tmp_path, list(SYSTEMS))
    names = {stage.name for stage in plan.stages}
    assert len(names) == len(plan.stages)
    assert all(need in names for stage in plan.stages for need in stage.needs)
    assert [trial.system.name for trial in plan.trials if trial.direction.name == "there"] == list(SYSTEMS)
    assert all(trial.translation in names for trial in plan.trials)


def test_what_directions_have_in_common_is_made_once(tmp_path: Path):
    plan = planned(tmp_path, ["E2E-ST-Base", "E2E-ST-SP"])
    models = [stage.name for stage in plan.stages if stage.name.startswith("translator")]
    # The specific translator there is the base of the way back, with the vocabularies of the first general corpus.
    assert models == ["translator of general de", "translator of parliament de"]
    back = next(stage for stage in plan.stages if stage.name == "translator of parliament de")
    assert set(back.needs) == {"corpus parliament de", "translator of general de"}


def test_variants_take_the_tuned_parameters_of_the_plain_search(tmp_path: Path):
    plan = planned(tmp_path, ["NPDA-kNN-ST", "Fast kNN-MT"])
    plain, fast = (trial for trial in plan.trials if trial.direction.name == "there")
    assert (plain.tuning, plain.store) == (fast.tuning, fast.store)
    assert plain.translation != fast.translation


def test_only_what_a_setting_shapes_is_keyed_by_it(tmp_path: Path):
    """The penalty belongs to the training of gates, the way sizes are counted to the stores that are made smaller."""
    systems = ["E2E-ST-Base", "AFS", "NPDA-kNN-ST", "Fast kNN-MT", "Efficient kNN (PCA)", "Efficient kNN (pruned)"]
    settings = {stage.name: stage.settings for stage in planned(tmp_path, systems).stages}
    assert [name for name, told in settings.items() if "l0_weight" in told] == ["gated recogniser general de"]
    smaller = ["translate Efficient kNN (PCA) there de", "translate Efficient kNN (pruned) there de"]
    assert [name for name, told in settings.items() if "sizes" in told] == smaller


def test_the_size_curve_is_drawn_of_the_largest_text(tmp_path: Path):
    plan = planned(tmp_path, ["E2E-ST-Base", "NPDA-kNN-ST", "NPDA-kNN-ST+"])
    assert plan.sizes == {
        ("there", "de"): "sizes of NPDA-kNN-ST+ there de",
        ("back", "de"): "sizes of NPDA-kNN-ST back de",
    }
    assert list(plan.speeds) == [("there", "de")]


def test_a_system_without_its_data_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"NPDA-kNN-ST\+ needs large_text, which the direction 'there'"):
        planned(tmp_path, ["NPDA-kNN-ST+"], more="")
