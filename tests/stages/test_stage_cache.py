"""Results of stages: found again unless they are stale, damaged or of somebody else."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from npda.stages import stage_cache as module
from npda.stages.code import Code
from npda.stages.stage_cache import StageCache


class Version(Code):
    """Code whose digest is its name."""

    def digest(self) -> str:
        return self.modules[0]


NOW, LATER = Version(("now",)), Version(("later",))


class Caller:
    """A stage as a command calls it, each time with a cache of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, result: int, identity: dict | None = None, code: Code = NOW) -> tuple[int, list[str]]:
        cache = StageCache(self.directory)
        return cache.recall("sum", identity or {"model": (1, 2)}, code, int, lambda: result), cache.found


@pytest.fixture
def call(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


def test_a_result_is_found_again(call: Caller):
    assert call(3) == (3, [])
    assert call(4) == (3, ["sum"])


def test_other_inputs_or_other_code_make_it_stale(call: Caller):
    call(3)
    assert call(4, {"model": (1, 3)}) == (4, [])
    assert call(5) == (5, [])
    assert call(6, code=LATER) == (6, [])
    assert call(7, code=LATER) == (6, ["sum"])


def test_a_result_of_version_0_1_0_counts(call: Caller, tmp_path: Path):
    record = {"identity": {"model": [1, 2], "npda": "0.1.0"}, "seconds": 0.5, "result": 8}
    (tmp_path / "sum.json").write_text(json.dumps(record))
    assert call(9) == (8, ["sum"])
    assert call(9, code=LATER) == (8, ["sum"])
    assert call(9, {"model": (1, 3)}) == (9, [])


@pytest.mark.parametrize("content", ["{", "[]", '{"seconds": 1, "result": 3}', '{"identity": {"model": [1, 2]}}'])
def test_a_damaged_result_is_made_anew(call: Caller, tmp_path: Path, content: str):
    (tmp_path / "sum.json").write_text(content)
    assert call(3) == (3, [])


def test_a_failure_leaves_nothing(call: Caller, tmp_path: Path):
    def killed() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        StageCache(tmp_path).recall("sum", {"model": (1, 2)}, NOW, int, killed)
    assert call(3) == (3, [])


def test_what_a_process_beside_has_done_is_not_from_an_earlier_call(tmp_path: Path, call: Caller):
    cache = StageCache(tmp_path)
    call(3)
    assert cache.recall("sum", {"model": [1, 2]}, NOW, int, lambda: 4) == 3
    assert cache.found == []


def test_the_time_of_a_stage_is_without_that_of_those_inside(tmp_path: Path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    cache = StageCache(tmp_path)

    def spend(seconds: float, then: Callable[[], int] = lambda: 1) -> int:
        clock[0] += seconds
        return then()

    def inner() -> int:
        return cache.recall("inner", {}, NOW, int, lambda: spend(5.0))

    cache.recall("outer", {}, NOW, int, lambda: spend(2.0, inner))
    assert cache.seconds == {"inner": 5.0, "outer": 2.0}
    again = StageCache(tmp_path)
    again.recall("outer", {}, NOW, int, lambda: 0)
    assert again.seconds == {"outer": 2.0}


class Builder:
    """A directory that a stage makes; half of it survives a kill."""

    def __init__(self, root: Path) -> None:
        self.root, self.path, self.half = root, root / "store", root / ".store.building"

    def __call__(self, content: str, code: Code = NOW, killed: bool = False) -> tuple[str, list[str]]:
        def make() -> None:
            self.half.mkdir(exist_ok=True)
            begun = self.half / "content"
            begun.write_text((begun.read_text() if begun.exists() else "") + content)
            if killed:
                raise KeyboardInterrupt
            self.half.rename(self.path)

        cache = StageCache(self.root / "records")
        cache.recall_directory("store", {"text": 1}, code, self.path, make)
        assert {path.name for path in self.root.iterdir()} == {"records", "store"}
        return (self.path / "content").read_text(), cache.found


@pytest.fixture
def build(tmp_path: Path) -> Builder:
    return Builder(tmp_path)


def test_a_directory_is_found_again_until_it_is_stale(build: Builder):
    assert build("a") == ("a", [])
    assert build("b") == ("a", ["store"])
    assert build("c", LATER) == ("c", [])
    assert build("d", LATER) == ("c", ["store"])
    (build.path / "content").unlink()
    build.path.rmdir()
    assert build("e", LATER) == ("e", [])


def test_a_killed_directory_goes_on_unless_other_code_began_it(build: Builder):
    with pytest.raises(KeyboardInterrupt):
        build("a", killed=True)
    assert build("b") == ("ab", [])
    with pytest.raises(KeyboardInterrupt):
        build("c", LATER, killed=True)
    assert build("d") == ("d", [])


def test_a_directory_of_version_0_1_0_counts(build: Builder):
    build("a")
    (build.root / "records" / "store.json").write_text('{"identity": {"text": 1}}')
    assert build("b", LATER) == ("a", ["store"])
