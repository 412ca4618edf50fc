"""Recipes that are damaged, absurd, or written to do harm."""

from __future__ import annotations

from random import Random

from tests.faults.judging import Door, Planted
from tests.faults.spoiling import spoilt
from tests.faults.verdicts import Cases
from tests.faults.world import RECIPE, World


def cases(world: World, random: Random) -> Cases:
    door = Door(world, ["--dry-run", "--runs", "runs", "-q"])
    data = {name: world.file(name).read_bytes() for name in ("train.tsv", "dev.tsv")}
    anchors = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    bad = {
        "empty": "",
        "a list": "- a\n- b\n",
        "a word": "recipe",
        "a tab": "name:\tx\n\tcorpora: x\n",
        "an object": "name: !!python/object/apply:os.system ['echo planted']\n" + RECIPE,
        "a module": "name: !!python/module:os\n",
        "aliases": RECIPE + anchors,
        "a circle": "name: &a [*a]\n",
        "a nest": "name: " + "[" * 5_000,
        "an unknown key": RECIPE + "run: rm -rf /\n",
        "a key twice": RECIPE + "name: other\n",
        "no number": RECIPE.replace("max_updates: 3", "max_updates: .nan"),
        "without end": RECIPE.replace("max_updates: 3", "max_updates: .inf"),
        "a number beyond reason": RECIPE.replace("beam: 2", f"beam: {10**30}"),
        "less than nothing": RECIPE.replace("beam: 2", "beam: -2"),
        "a word for a number": RECIPE.replace("beam: 2", "beam: two"),
        "a name that leads out": RECIPE.replace("name: tiny", "name: ../../x"),
        "a direction that leads out": RECIPE.replace("name: there", "name: ../../x"),
        "an unknown system": RECIPE.replace("E2E-ST-Base", "rm -rf"),
        "no such file": RECIPE.replace("train.tsv", "none.tsv"),
        "a variable that is not set": RECIPE.replace("train: train.tsv", "train: $HOME/.ssh/id_rsa"),
        "another language": RECIPE.replace("[de]", "[klingon]"),
    }
    for name, content in bad.items():
        yield door.case(name, "reproduce", Planted({"x.yaml": content.encode(), **data}), must_refuse=True)
    yield door.case(
        "latin-1",
        "reproduce",
        Planted({"x.yaml": RECIPE.replace("tiny", "schön").encode("latin-1"), **data}),
        must_refuse=True,
    )
    yield door.case("as it should be", "reproduce", Planted({"x.yaml": RECIPE.encode(), **data}), must_work=True)
    while True:
        content, how = spoilt(RECIPE.encode(), random)
        yield door.case(how, "reproduce", Planted({"x.yaml": content, **data}))
