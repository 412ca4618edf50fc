"""Stages: caching by what goes in, failures kept apart, kill -9, two runs at once."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npda.io.errors import InputError
from npda.stages.code import Code
from npda.stages.plan import Plan, Stage, StageLog, plan
from npda.stages.run import Report, Watcher, run


class Kitchen:
    """Stages that write down who worked, in which order, and what they found."""

    def __init__(self, directory: Path) -> None:
        self.runs = directory / "runs"
        self.diary = directory / "diary.txt"

    def stage(self, name: str, *needs: str, cost: float = 0.0, inputs: tuple[Path, ...] = ()) -> Stage:
        def work(directory: Path, needed, log: StageLog) -> None:
            with self.diary.open("a") as file:
                file.write(f"{name}\n")
            texts = [(needed[need] / "out.txt").read_text() for need in needs]
            (directory / "out.txt").write_text("".join([*texts, *(path.read_text() for path in inputs), name]))

        return Stage(name, work, None, needs, cost, inputs)

    def worked(self) -> list[str]:
        """Who worked since the last look."""
        found = self.diary.read_text().split("\n")[:-1] if self.diary.exists() else []
        self.diary.unlink(missing_ok=True)
        return found


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    return Kitchen(tmp_path)


def states(report: Report) -> dict[str, str]:
    return {outcome.step.name: outcome.state for outcome in report.outcomes}


def chain(kitchen: Kitchen) -> list[Stage]:
    return [kitchen.stage("a"), kitchen.stage("b", "a"), kitchen.stage("c", "b"), kitchen.stage("other")]


def failing(name: str, *needs: str) -> Stage:
    def work(directory: Path, needed, log: StageLog) -> None:
        raise RuntimeError("the oven\nis cold")

    return Stage(name, work, needs=needs)


@pytest.mark.parametrize("apart", [False, True])
def test_each_stage_runs_after_its_needs_and_a_second_run_does_nothing(kitchen: Kitchen, apart: bool):
    stages = [kitchen.stage("c", "b"), kitchen.stage("other"), kitchen.stage("b", "a"), kitchen.stage("a")]
    report = run(stages, kitchen.runs, apart=apart)
    assert kitchen.worked() == ["a", "b", "c", "other"]
    assert report.exit_code == 0
    assert (report.directories["c"] / "out.txt").read_text() == "abc"
    again = run(stages, kitchen.runs, apart=apart)
    assert kitchen.worked() == []
    assert set(states(again).values()) == {"found"}
    assert again.directories == report.directories
    mark = json.loads((report.directories["b"] / "stage.json").read_text())
    assert mark["name"] == "b"
    assert mark["needs"] == {"a": report.directories["a"].name}


def test_other_settings_redo_a_stage_and_what_depends_on_it_only(kitchen: Kitchen):
    run(chain(kitchen), kitchen.runs)
    kitchen.worked()
    a, b, c, other = chain(kitchen)
    changed = [a, replace(b, settings={"epochs": 3}), c, other]
    run(changed, kitchen.runs)
    assert kitchen.worked() == ["b", "c"]
    run([a, b, c, other], kitchen.runs)  # back again: the first results are still there
    run([a, replace(b, settings={"epochs": 3}, cost=9.0), c, other], kitchen.runs)  # a cost is no setting
    assert kitchen.worked() == []


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.integers() | st.lists(FINITE), max_size=4))
def test_the_order_of_keys_does_not_matter(values):
    def key(value) -> str:
        return plan([Stage("a", lambda *_: None, value)], "nowhere").steps[0].key

    assert key(values) == key(dict(reversed(values.items())))
    assert key(values) != key({**values, "more": 1})


@pytest.mark.parametrize("value", [Path("x"), {"a": float("nan")}, {1, 2}])
def test_settings_must_be_json(value):
    with pytest.raises(TypeError, match="settings of stage 'a' are not JSON"):
        plan([Stage("a", lambda *_: None, value)], "nowhere")


def test_inputs_are_told_by_their_contents(kitchen: Kitchen, tmp_path: Path):
    path, moved = tmp_path / "pairs.tsv", tmp_path / "moved.tsv"
    path.write_text("one")
    os.utime(path, (1, 1))  # old enough for its digest to be remembered

    def go(path: Path) -> str:
        report = run([kitchen.stage("a", inputs=(path,)), kitchen.stage("b", "a")], kitchen.runs)
        return (report.directories["b"] / "out.txt").read_text()

    assert go(path) == "oneab"
    kitchen.worked()
    os.utime(path, (2, 2))
    assert go(path) == "oneab"
    path.rename(moved)
    assert go(moved) == "oneab"
    assert kitchen.worked() == []
    moved.write_text("two")  # as long, and perhaps within the same tick of the clock
    assert go(moved) == "twoab"
    assert kitchen.worked() == ["a", "b"]
    moved.unlink()
    with pytest.raises(InputError, match=r"moved\.tsv, an input of 'a', cannot be read: No such file"):
        go(moved)


def test_a_remembered_digest_saves_reading(kitchen: Kitchen, tmp_path: Path):
    path = tmp_path / "large.tsv"
    path.write_text("one")
    os.utime(path, (1, 1))
    plan([kitchen.stage("a", inputs=(path,))], kitchen.runs)
    known = json.loads((kitchen.runs / "digests.json").read_text())
    known[str(path)][0] = "0" * 64
    (kitchen.runs / "digests.json").write_text(json.dumps(known))
    first = plan([kitchen.stage("a", inputs=(path,))], kitchen.runs).steps[0].key
    (kitchen.runs / "digests.json").write_text("not JSON")
    assert plan([kitchen.stage("a", inputs=(path,))], kitchen.runs).steps[0].key != first


@pytest.mark.parametrize("apart", [False, True])
def test_a_failure_is_logged_and_the_others_go_on(kitchen: Kitchen, apart: bool):
    stages = [failing("a"), kitchen.stage("b", "a"), kitchen.stage("c", "b"), kitchen.stage("other")]
    report = run(stages, kitchen.runs, apart=apart)
    assert states(report) == {"a": "failed", "b": "skipped", "c": "skipped", "other": "done"}
    assert report.exit_code == 1
    assert [outcome.reason for outcome in report.failures] == ["RuntimeError: the oven is cold", "a failed", "a failed"]
    log = report.failures[0].log
    assert f"(log: {log})" in report.failures[0].sentence()
    assert "Traceback" in log.read_text()
    assert "is cold" in log.read_text()
    mended = [kitchen.stage("a"), *stages[1:]]
    assert states(run(mended, kitchen.runs)) == {"a": "done", "b": "done", "c": "done", "other": "found"}


def test_a_failure_may_end_the_run(kitchen: Kitchen):
    report = run([failing("a"), kitchen.stage("b")], kitchen.runs, keep_going=False)
    assert states(report) == {"a": "failed", "b": "skipped"}
    assert kitchen.worked() == []


def test_wrong_input_and_sys_exit_are_failures_too(kitchen: Kitchen):
    def wrong(*_) -> None:
        raise InputError("pairs.tsv, line 3: no tab.")

    report = run([Stage("a", wrong), Stage("b", lambda *_: sys.exit(4)), kitchen.stage("c")], kitchen.runs)
    assert [outcome.reason for outcome in report.outcomes] == ["pairs.tsv, line 3: no tab.", "SystemExit: 4", ""]


def test_a_stage_killed_apart_does_not_take_the_others_along(kitchen: Kitchen):
    def crash(*_) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    stages = [Stage("a", crash), Stage("b", lambda *_: os._exit(7)), kitchen.stage("c")]
    report = run(stages, kitchen.runs, apart=True)
    assert states(report) == {"a": "failed", "b": "failed", "c": "done"}
    assert report.outcomes[0].reason == "its process was ended by SIGKILL; was there enough memory?"
    assert report.outcomes[1].reason == "its process ended early with exit code 7"


@pytest.mark.parametrize("apart", [False, True])
def test_whatever_a_stage_says_is_in_its_log_and_nowhere_else(kitchen: Kitchen, apart: bool, capfd):
    handlers = list(logging.getLogger().handlers)

    def work(directory: Path, needed, log: StageLog) -> None:
        print("printed")
        print("complained", file=sys.stderr)
        logging.getLogger("npda.x").info("informed")
        warnings.warn("warned", stacklevel=1)
        os.write(2, b"from C\n")
        log("noted")

    report = run([Stage("a", work), kitchen.stage("b")], kitchen.runs, apart=apart)
    log = (report.directories["a"] / "log.txt").read_text()
    for word in ("printed", "complained", "informed", "warned", "from C", "noted"):
        assert word in log
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger().handlers == handlers
    print("back")
    assert capfd.readouterr().out == "back\n"


@pytest.mark.parametrize(
    ("only", "worked"),
    [
        (["b"], ["a", "b"]),
        (["other"], ["other"]),
        (["[bo]*"], ["a", "b", "other"]),
        (["c", "other"], ["a", "b", "c", "other"]),
    ],
)
def test_only_takes_what_is_needed_along(kitchen: Kitchen, only: list[str], worked: list[str]):
    report = run(chain(kitchen), kitchen.runs, only=only)
    assert kitchen.worked() == worked
    assert set(states(report)) == set(worked)


def test_a_name_that_looks_like_a_pattern_is_a_name(kitchen: Kitchen):
    stages = [kitchen.stage("Cascade-ST*"), kitchen.stage("Cascade-ST")]
    run(stages, kitchen.runs, only=["Cascade-ST*"])
    assert kitchen.worked() == ["Cascade-ST*"]


def test_from_does_a_stage_and_what_depends_on_it_again(kitchen: Kitchen):
    first = run(chain(kitchen), kitchen.runs)
    kitchen.worked()
    (first.directories["b"] / "left.txt").write_text("from the first time")
    report = run(chain(kitchen), kitchen.runs, from_="b")
    assert kitchen.worked() == ["b", "c"]
    assert report.directories == first.directories
    assert not (report.directories["b"] / "left.txt").exists()
    run(chain(kitchen), kitchen.runs, only=["b"], from_="a")
    assert kitchen.worked() == ["a", "b"]
    with pytest.raises(InputError, match="'other' to start from is not among those chosen"):
        run(chain(kitchen), kitchen.runs, only=["b"], from_="other")


def test_interrupted_after_from_nothing_old_is_taken_for_new(kitchen: Kitchen):
    run(chain(kitchen), kitchen.runs)
    kitchen.worked()

    def interrupted(*_) -> None:
        raise KeyboardInterrupt

    a, b, c, other = chain(kitchen)
    with pytest.raises(KeyboardInterrupt):
        run([replace(a, work=interrupted), b, c, other], kitchen.runs, from_="a")
    run([a, b, c, other], kitchen.runs)
    assert kitchen.worked() == ["a", "b", "c"]


def test_the_plan_tells_states_and_costs_and_runs_nothing(kitchen: Kitchen):
    stages = [kitchen.stage("a", cost=10), kitchen.stage("b", "a", cost=20), kitchen.stage("c", cost=40)]
    run(stages, kitchen.runs, only=["a"])
    kitchen.worked()
    begun = plan(stages, kitchen.runs).steps[1].directory
    begun.mkdir(parents=True)
    (begun / "checkpoint").touch()
    found = plan(stages, kitchen.runs, only=["b"])
    record = json.loads(json.dumps(found.record()))
    assert [(stage["name"], stage["state"], stage["cost"]) for stage in record["stages"]] == [
        ("a", "done", 10),
        ("b", "partly", 20),
        ("c", "skipped", 40),
    ]
    assert record["cost"] == 20
    assert plan(stages, kitchen.runs, from_="a").cost == 70
    assert kitchen.worked() == []


def test_a_damaged_mark_is_no_mark(kitchen: Kitchen):
    report = run([kitchen.stage("a")], kitchen.runs)
    mark = report.directories["a"] / "stage.json"
    for content in ("", "[]", '{"key": "other"}'):
        mark.write_text(content)
        kitchen.worked()
        run([kitchen.stage("a")], kitchen.runs)
        assert kitchen.worked() == ["a"]


def test_names_become_safe_folders(kitchen: Kitchen):
    names = ["../../etc", "NPDA-kNN-ST+", "NPDA-kNN-ST++", "λ", "a/b c"]
    report = run([kitchen.stage(name) for name in names], kitchen.runs)
    folders = [directory.name for directory in report.directories.values()]
    assert len(set(folders)) == 5
    assert all(directory.parent == kitchen.runs / "stages" for directory in report.directories.values())
    assert [folder.rsplit("-", 1)[0] for folder in folders] == ["etc", "npda-knn-st", "npda-knn-st", "stage", "a-b-c"]


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ([("a",), ("a",)], "two stages are named 'a'"),
        ([("train",), ("b", "trian")], "stage 'b' needs an unknown stage 'trian'; did you mean 'train'?"),
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")], "in a circle: a → b → c → a"),
        ([("a", "a")], "in a circle: a → a"),
    ],
)
def test_faulty_plans_are_refused(kitchen: Kitchen, stages: list[tuple[str, ...]], sentence: str):
    with pytest.raises(ValueError, match=r".") as caught:
        plan([kitchen.stage(*names) for names in stages], kitchen.runs)
    assert sentence in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest(kitchen: Kitchen):
    stages = [kitchen.stage("train base"), kitchen.stage("align base")]
    with pytest.raises(InputError, match=r"Unknown stage 'trian base'; did you mean 'train base'\?"):
        run(stages, kitchen.runs, only=["trian base"])
    with pytest.raises(InputError, match="Unknown stage 'zzz'; there are train base, align base"):
        run(stages, kitchen.runs, from_="zzz")
    assert not kitchen.runs.exists()


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from npda.stages.run import run
from npda.stages.plan import Stage

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs the tests in the background
runs, diary, apart, together = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "apart", sys.argv[4] == "True"

def say(word):
    with diary.open("a") as file:
        file.write(word + "\\n")

def count(directory, needed, log):
    path = directory / "count"
    start = int(path.read_text()) if path.exists() else 0
    say(f"count from {start}")
    for number in range(start, 12):
        (directory / "new").write_text(str(number + 1))
        os.replace(directory / "new", path)
        if number == 4:
            say("half")
            while together and "aside" not in diary.read_text():
                time.sleep(0.01)
        time.sleep(0.05)
    say("counted")

def early(directory, needed, log):
    say("early")

def late(directory, needed, log):
    say("late " + (needed["count"] / "count").read_text())

stages = [Stage("early", early), Stage("count", count, needs=("early",)), Stage("late", late, needs=("count",)),
          Stage("aside", lambda *_: say("aside"))]
report = run(stages, runs, apart=apart)
print(",".join(outcome.state for outcome in report.outcomes))
sys.exit(report.exit_code)
"""


class Runner:
    """Runs of SCRIPT in processes of their own."""

    def __init__(self, directory: Path, apart: bool, together: bool = False) -> None:
        """together: a run in the middle of counting waits for another one to do the stage aside"""
        self.directory, self.diary = directory, directory / "diary"
        self.together = together
        (directory / "script.py").write_text(SCRIPT)
        self.apart = "apart" if apart else "here"

    def start(self) -> subprocess.Popen:
        arguments = [self.directory / "script.py", self.directory / "runs", self.diary, self.apart, self.together]
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def wait_for(self, word: str) -> None:
        end = time.monotonic() + 300
        while not (self.diary.exists() and word in self.diary.read_text()):
            assert time.monotonic() < end, f"{word!r} never came"
            time.sleep(0.01)


@pytest.mark.parametrize("apart", [False, True])
def test_killed_in_the_middle_a_run_goes_on_where_it_was(tmp_path: Path, apart: bool):
    runner = Runner(tmp_path, apart)
    process = runner.start()
    runner.wait_for("half")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = runner.start()
    out, _ = again.communicate(timeout=600)
    assert (again.returncode, out) == (0, "found,done,done,done\n")
    diary = runner.diary.read_text().split("\n")[:-1]
    starts = [int(line.split()[-1]) for line in diary if line.startswith("count from")]
    assert starts[0] == 0
    assert 5 <= starts[1] < 12
    assert [line for line in diary if not line.startswith(("count from", "half"))] == [
        "early",
        "counted",
        "late 12",
        "aside",
    ]


@pytest.mark.parametrize("apart", [False, True])
def test_ctrl_c_ends_the_run_and_its_stage(tmp_path: Path, apart: bool):
    runner = Runner(tmp_path, apart)
    process = runner.start()
    runner.wait_for("half")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    before = runner.diary.read_text()
    time.sleep(0.8)
    assert runner.diary.read_text() == before  # nothing works on behind our back
    assert "counted" not in before


def test_two_runs_at_once_share_the_work(tmp_path: Path):
    runner = Runner(tmp_path, apart=False, together=True)
    first = runner.start()
    runner.wait_for("count from")
    second = runner.start()
    assert first.communicate(timeout=600)[0].startswith("done,done")
    assert second.communicate(timeout=600)[0].startswith("found,found")
    assert (first.returncode, second.returncode) == (0, 0)
    diary = runner.diary.read_text().split("\n")[:-1]
    assert sorted(diary) == ["aside", "count from 0", "counted", "early", "half", "late 12"]
    assert diary.index("aside") < diary.index("counted")  # the second went on with what was free


def test_several_stages_at_once(tmp_path: Path):
    """Two that wait for each other can only end together."""

    def meet(other: str):
        def work(directory: Path, needed, log: StageLog) -> None:
            (tmp_path / directory.name.split("-")[0]).touch()
            end = time.monotonic() + 300
            while not (tmp_path / other).exists():
                assert time.monotonic() < end
                time.sleep(0.01)

        return work

    stages = [Stage("a", meet("b")), Stage("b", meet("a")), Stage("c", lambda *_: None, needs=("a", "b"))]
    assert states(run(stages, tmp_path / "runs", jobs=2)) == {"a": "done", "b": "done", "c": "done"}


def test_the_watcher_hears_of_everything(kitchen: Kitchen):
    heard: list[str] = []

    class Ear(Watcher):
        def opened(self, plan: Plan) -> None:
            heard.append(f"opened {len(plan.steps)}")

        def started(self, step) -> None:
            heard.append(f"started {step.name}")

        def ended(self, outcome) -> None:
            heard.append(f"{outcome.state} {outcome.step.name}")

        def waits(self, names: Sequence[str]) -> None:
            heard.append(f"waits {names}")

        def closed(self) -> None:
            heard.append("closed")

    run([failing("a"), kitchen.stage("b", "a"), kitchen.stage("c")], kitchen.runs, watcher=Ear())
    assert heard == ["opened 3", "started a", "failed a", "skipped b", "started c", "done c", "closed"]


class Version(Code):
    """Code whose digest is its name."""

    def digest(self) -> str:
        return self.modules[0]


def coded(kitchen: Kitchen, **versions: str) -> list[Stage]:
    return [replace(stage, code=Version((versions.get(stage.name, "1"),))) for stage in chain(kitchen)]


def shown(stages: list[Stage], runs: Path) -> dict[str, str]:
    return {step.name: step.state for step in plan(stages, runs).steps}


def test_other_code_redoes_a_stage_and_what_depends_on_it_only(kitchen: Kitchen):
    first = run(coded(kitchen), kitchen.runs)
    assert shown(coded(kitchen), kitchen.runs) == dict.fromkeys(["a", "b", "c", "other"], "done")
    kitchen.worked()
    changed = coded(kitchen, b="2")
    assert shown(changed, kitchen.runs) == {"a": "done", "b": "stale", "c": "stale", "other": "done"}
    (first.directories["b"] / "left.txt").touch()
    report = run(changed, kitchen.runs)
    assert kitchen.worked() == ["b", "c"]
    assert report.directories == first.directories  # keys know nothing of code
    assert not (report.directories["b"] / "left.txt").exists()
    assert run(changed, kitchen.runs).exit_code == 0
    assert kitchen.worked() == []


def test_interrupted_after_a_change_of_code_nothing_old_is_taken_for_new(kitchen: Kitchen):
    run(coded(kitchen), kitchen.runs)
    kitchen.worked()
    run(coded(kitchen, a="2"), kitchen.runs, only=["a"])  # and no further
    assert kitchen.worked() == ["a"]
    run(coded(kitchen, a="2"), kitchen.runs)
    assert kitchen.worked() == ["b", "c"]


def test_stale_results_can_be_kept_but_not_passed_off_as_new(kitchen: Kitchen):
    run(coded(kitchen), kitchen.runs, only=["b"])
    kitchen.worked()
    changed = coded(kitchen, a="2")
    run(changed, kitchen.runs, keep_stale=True)
    assert kitchen.worked() == ["c", "other"]  # c is made from results of the code before
    assert shown(changed, kitchen.runs) == {"a": "stale", "b": "stale", "c": "stale", "other": "done"}
    run(changed, kitchen.runs)
    assert kitchen.worked() == ["a", "b", "c"]


def without_code(mark: Path) -> None:
    """As version 0.1.0 wrote it."""
    record = json.loads(mark.read_text())
    del record["code"]
    mark.write_text(json.dumps(record))


def test_marks_without_code_count_until_what_they_need_is_made_anew(kitchen: Kitchen):
    report = run(coded(kitchen), kitchen.runs)
    for directory in report.directories.values():
        without_code(directory / "stage.json")
    kitchen.worked()
    changed = coded(kitchen, a="2", c="3")
    run(changed, kitchen.runs)
    assert kitchen.worked() == []
    run(changed, kitchen.runs, only=["a"], from_="a")
    assert kitchen.worked() == ["a"]
    run(changed, kitchen.runs)
    assert kitchen.worked() == ["b", "c"]


def counting(version: str, killed: bool) -> Stage:
    """Adds its version to what an interrupted attempt has left."""

    def work(directory: Path, needed, log: StageLog) -> None:
        path = directory / "out.txt"
        path.write_text((path.read_text() if path.exists() else "") + version)
        if killed:
            raise KeyboardInterrupt

    return Stage("a", work, code=Version((version,)))


@pytest.mark.parametrize(
    ("version", "keep_stale", "result"), [("1", False, "11"), ("2", False, "2"), ("2", True, "12")]
)
def test_an_interrupted_attempt_goes_on_by_the_same_code(tmp_path: Path, version: str, keep_stale: bool, result: str):
    with pytest.raises(KeyboardInterrupt):
        run([counting("1", killed=True)], tmp_path)
    assert shown([counting("1", False)], tmp_path) == {"a": "partly"}
    assert shown([counting("2", False)], tmp_path) == {"a": "stale"}
    report = run([counting(version, killed=False)], tmp_path, keep_stale=keep_stale)
    assert (report.directories["a"] / "out.txt").read_text() == result
    # What two versions have made is of the first: without the wish to keep it, it is made anew.
    assert shown([counting(version, False)], tmp_path) == {"a": "stale" if keep_stale else "done"}
