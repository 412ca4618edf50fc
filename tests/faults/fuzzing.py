"""Whatever reads bytes from outside, under hypothesis, and under atheris where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.faults.spoiling import spoilt
from tests.faults.targets import TARGETS, tried
from tests.faults.trial import forked
from tests.faults.verdicts import WORKED, Case, Cases, Found, Skipped, Verdict
from tests.faults.world import RECIPE, World

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
EXAMPLES = 100  # of one case
SECONDS = 20  # of one case with atheris

_FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=12,
)
_WORDS = {
    "factory": st.text("IVFPQHNSWLSHOx,0123456789fsr_", max_size=24),
    "piece": st.builds("{}:{}:{}".format, st.text(max_size=8), st.integers(), st.integers()),
    "language": st.text(max_size=12),
    "terminal": st.text(max_size=40),
}


def strategy(name: str, whole: list[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes for a target: chance, what is shaped like its own, and what was right before it was spoilt."""
    spoiling = st.builds(lambda content, random: spoilt(content, random)[0], st.sampled_from(whole), st.randoms())
    shaped: st.SearchStrategy[Any] = st.lists(st.lists(_FIELDS, max_size=4).map("\t".join), max_size=6).map("\n".join)
    if name in ("datastore.json", "sealed"):
        shaped = _JSON.map(json.dumps)
    return (
        st.binary(max_size=200)
        | spoiling
        | _WORDS.get(name, shaped).map(lambda text: text.encode("utf-8", "surrogatepass"))
    )


def wholes(world: World) -> dict[str, list[bytes]]:
    """What each target takes."""
    files = {
        "pairs": ["pairs.tsv"], "lines": ["pairs.tsv.gz"], "manifest": ["train.tsv"], "sheet": ["terms.tsv"],
        "terms": ["terms.tsv"], "tmx": ["memory.tmx"], "datastore.json": ["store/datastore.json"],
        "sealed": ["store/knn.json"], "weights": ["model/text_encoder/model.safetensors"],
        "audio": ["a.wav", "a.flac", "a.mp3", "a.ogg"],
    }  # fmt: skip
    found = {name: [world.file(file).read_bytes() for file in names] for name, names in files.items()}
    return found | {"recipe": [RECIPE.encode()]} | {name: [b"IVF2,Flat", b"de", b"x:0:1"] for name in _WORDS}


def cases(world: World, random: Random) -> Cases:
    """With hypothesis."""
    whole = wholes(world)
    while True:
        for name in TARGETS:
            number = random.randrange(1 << 30)
            work = _hypothesis(name, strategy(name, whole[name]), number)
            yield Case(f"{name}, seed {number}", lambda work=work: _found(work))


def _hypothesis(name: str, given_: st.SearchStrategy[bytes], number: int) -> Callable[[], int]:
    @seed(number)
    @settings(max_examples=EXAMPLES, database=None, deadline=None, suppress_health_check=_SLOW)
    @given(given_)
    def run(data: bytes) -> None:
        tried(name, data)

    def work() -> int:
        run()
        return 0

    return work


def _found(work: Callable[[], int]) -> Found:
    ended = forked(work)
    if ended.code is None:
        return Found(Verdict.HANG, ended.words)
    return WORKED if ended.code == 0 else Found(Verdict.TRACEBACK, ended.words)


def guided(world: World, random: Random) -> Cases:
    """With atheris, which sees which lines a byte has reached."""
    if importlib.util.find_spec("atheris") is None:
        raise Skipped("atheris is not installed: pip install atheris")
    whole = wholes(world)
    while True:
        for name in TARGETS:
            number = random.randrange(1 << 30)
            yield Case(
                f"{name}, seed {number}", lambda name=name, number=number: _atheris(world, name, whole[name], number)
            )


def _atheris(world: World, name: str, whole: list[bytes], number: int) -> Found:
    with world.scratch() as folder:
        for place, content in enumerate(whole):
            (folder / "seeds").mkdir(exist_ok=True)
            (folder / "seeds" / str(place)).write_bytes(content)
        command = [
            sys.executable,
            "-m",
            "tests.faults.guided",
            name,
            "seeds",
            f"-seed={number}",
            f"-max_total_time={SECONDS}",
        ]
        command += ["-timeout=60", "-rss_limit_mb=4096"]
        root = str(Path(__file__).parents[2])
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=20 * SECONDS, check=False,
            env=_environment(root),
        )  # fmt: skip
    if done.returncode == 0:
        return WORKED
    verdict = Verdict.HANG if "timeout" in done.stderr else Verdict.TRACEBACK
    return Found(verdict, done.stderr[-1500:])


def _environment(root: str) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*([before] if before else []), root])}
