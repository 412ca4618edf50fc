"""Options that nobody means, at every verb: numbers, languages, files that are none, and words that are no choice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import typer

from npda.cli import app
from tests.faults.deeds import DEEDS
from tests.faults.judging import Door, Planted
from tests.faults.verdicts import Cases
from tests.faults.world import World

_NUMBERS = ("nan", "inf", "-inf", "1e308", "-1e308", "9" * 30, "-1", "0", "x", "", "0x10", "1_0", "١")
_TEXTS = ("", "klingon", "../../x", "\x1b[31m", "-", "x" * 5_000, "\u202e", "de\nfr", "mixed")
_PATHS = ("", "none", "folder", "fifo", "-", "n" * 300, "latin-1", "none/none", "/dev/null", "/proc/self/mem")
_ABSURD = ("9" * 30, "nan", "inf", "-inf", "1e308", "-1e308", "x", "")


def cases(world: World, random: Random) -> Cases:
    """One option of a command that works is something else."""
    planted = Planted({"latin-1": b"\xe4\xf6\xfc\n" * 20}, {"fifo": os.mkfifo, "folder": os.mkdir})
    yield from _languages(world)
    verbs: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    while True:
        deed = random.choice(DEEDS)
        verb = deed.name.split(" (")[0]
        parameter = random.choice([each for each in verbs[verb].params if each.param_type_name == "option"])
        option, kind = max(parameter.opts, key=len), parameter.display_type(None) or ""
        if option in ("--help", "--ray", "--device") or parameter.is_flag:
            continue
        number = "<int" in kind or "<float" in kind
        value = random.choice(_NUMBERS if number else _PATHS if "path" in kind else _TEXTS)
        words = [word.replace("HOME", str(world.home)) for word in deed.arguments.split()]
        for copy in deed.copies:  # what it would change is elsewhere
            words = [str(world.file(copy)) if word == copy else word for word in words]
        if deed.copies:
            continue
        yield Door(world, [*words, option, value]).case(
            f"{option} {value[:20]!r}", verb, planted, "-q" if "-q" in verbs[verb].params[-2].opts else "--",
            must_refuse=number and value in _ABSURD, writes=(*deed.results, *deed.kept, value.split("/")[0]),
        )  # fmt: skip


def _languages(world: World) -> Iterator[Any]:
    """What the model cannot write or hear."""
    plain = ["--model", str(world.model), "-q"]
    translate = Door(world, [str(world.file("1.wav")), *plain, "--beam", "1", "--max-length", "5"])
    build = Door(world, ["--text", str(world.file("pairs.tsv")), *plain, "--out", "out"])
    none = Planted()
    for language in ("klingon", "fr", "French", "../../x", "mixed", "", "\x1b[31m", "d" * 300):
        refuse = language != ""
        yield translate.case(f"{language[:20]!r}", "translate", none, "--language", language, must_refuse=refuse)
        yield build.case(
            f"{language[:20]!r}", "build", none, "--language", language, must_refuse=refuse, writes=("out",)
        )
    for path in (Path("x"), Path("folder")):
        yield translate.case(f"a store {path}", "translate", none, "--store", str(path), must_refuse=True)
