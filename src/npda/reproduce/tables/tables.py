"""The paper's tables and figures from whatever stages of a recipe are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from npda.report.table import Table
from npda.reproduce.recipe.recipe import Recipe
from npda.reproduce.results import Results
from npda.reproduce.tables import measures as measure_tables
from npda.reproduce.tables import metrics as metric_tables
from npda.reproduce.tables import scores as score_tables
from npda.reproduce.tables.paper import is_mini

if TYPE_CHECKING:
    from npda.reproduce.planning import RecipePlan

_MAKERS: dict[str, Callable[[Results], Iterator[Table]]] = {
    "adaptation": score_tables.adaptation,
    "in-domain": score_tables.in_domain,
    "ablation": score_tables.ablation,
    "cascade": score_tables.cascade,
    "variants": score_tables.variants,
    "datastore-size": measure_tables.datastore_size,
    "tuned": measure_tables.tuned,
    "datastores": measure_tables.datastores,
    "speed": measure_tables.speed,
    "metrics": metric_tables.metrics,
}

TABLES = tuple(_MAKERS)


def make_tables(recipe: Recipe, plan: RecipePlan, directories: Mapping[str, Path]) -> list[Table]:
    """The tables a recipe asks for; directories: of the stages that are done, by name."""
    results = Results(recipe, plan, directories)
    tables = [table for kind in recipe.tables for table in _MAKERS[kind](results)]
    return [replace(table, title=f"{table.title} (mini)") for table in tables] if is_mini(recipe) else tables
