"""The run_display: what it says, when it keeps quiet, and how it counts what is left."""

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from npda.stages import run_display as board_module
from npda.stages.plan import Stage, plan
from npda.stages.run import Outcome, run
from npda.stages.run_display import LineDisplay, LiveDisplay, duration, last_line, pace, plan_table, run_display


def nothing(*_) -> None:
    pass


def broken(*_) -> None:
    raise RuntimeError("[bold]cold[/bold]")


STAGES = (
    Stage("train [base]", nothing, cost=300),
    Stage("align", broken, needs=("train [base]",), cost=60),
    Stage("tune", nothing, needs=("align",), cost=30),
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (250, "4 min 10 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(seconds: float, text: str):
    assert duration(seconds) == text


def test_the_pace_is_what_stages_took_against_their_estimates():
    assert pace([]) == 1
    assert pace([(0, 1000)]) == 1  # nobody estimated it
    assert pace([(100, 200), (270, 570)]) == pytest.approx(800 / 400)
    assert pace([(1, 10)]) < 1.5  # a second gone wrong does not turn an hour into ten


def test_a_line_when_a_stage_begins_and_one_when_it_ends(tmp_path: Path, capfd):
    report = run(STAGES, tmp_path, watcher=run_display())
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "3 stages, 0 done before; about 6 min 30 s"
    assert lines[1] == "[1/3] train [base]: begun, about 5 min 00 s"
    assert lines[2].startswith("[1/3] train [base]: done in 0 s; about ")
    assert lines[3].startswith("[2/3] align: begun, about ")
    log = report.outcomes[1].log
    assert lines[4] == f"[2/3] align: failed after 0 s: RuntimeError: [bold]cold[/bold] (log: {log})"
    assert lines[5] == "[3/3] tune: skipped, align failed"
    assert lines[6] == "1 done, 1 failed, 1 skipped"
    assert len(lines) == 7
    run(STAGES, tmp_path, only=["train*"], watcher=run_display())
    assert capfd.readouterr().err.splitlines() == ["1 stages, 1 done before; about 0 s", "1 found"]


def test_quiet_means_quiet(tmp_path: Path, capfd):
    run(STAGES, tmp_path, watcher=run_display(quiet=True))
    assert capfd.readouterr() == ("", "")


def test_what_is_left_follows_the_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = [1000.0]
    monkeypatch.setattr(board_module.time, "monotonic", lambda: clock[0])
    chosen = plan(STAGES, tmp_path)
    train, align, _ = chosen.steps
    lines = LineDisplay(Console(file=io.StringIO()))
    lines.opened(chosen)
    assert lines.remaining() == 390
    lines.started(train)
    clock[0] += 100
    assert lines.remaining() == 290
    lines.ended(Outcome(train, "done", seconds=630))  # twice as long: (30 + 630) / (30 + 300)
    assert lines.remaining() == pytest.approx(2 * 90)
    lines.started(align)
    clock[0] += 1000
    assert lines.remaining() == pytest.approx(2 * 30)  # what takes longer than expected is about to end
    lines.ended(Outcome(align, "done", seconds=1, resumed=True))  # tells nothing about the pace
    assert lines.remaining() == pytest.approx(2 * 30)


def test_a_line_every_half_minute_about_what_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock, console = [1000.0], Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(board_module.time, "monotonic", lambda: clock[0])
    chosen = plan(STAGES, tmp_path)
    lines = LineDisplay(console)
    lines.opened(chosen)
    step = chosen.steps[0]
    lines.started(step)
    step.directory.mkdir(parents=True)
    for clock[0] in (1029.9, 1030, 1059):
        lines.refresh()
    (step.directory / "log.txt").write_text("npda: training: 10 of 20\n")
    for clock[0] in (1060, 1075):
        lines.refresh()
    printed = console.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
    assert printed[2:] == [
        "[1/3] train [base]: 30 s of about 5 min 00 s",
        "[1/3] train [base]: 1 min 00 s of about 5 min 00 s; npda: training: 10 of 20",
    ]


def test_the_live_board_shows_what_works_and_what_comes(tmp_path: Path):
    chosen = plan([*STAGES, *(Stage(f"more {n}", nothing) for n in range(9))], tmp_path)
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    live = LiveDisplay(console, apart=True)
    live.opened(chosen)
    step = chosen.steps[0]
    step.directory.mkdir(parents=True)
    (step.directory / "log.txt").write_text("epoch 1\nepoch 2: loss 3.1\n\n")
    live.started(step)
    shown = Console(file=io.StringIO(), width=100)
    shown.print(live.render())
    text = shown.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "▶  train [base]" in text
    assert "epoch 2: loss 3.1" in text
    assert "·  align" in text
    assert "more 2" in text
    assert "more 3" not in text
    assert "0 of 12 stages settled, 6 more after these; ETA 6 min 30 s" in text
    live.ended(Outcome(step, "done", seconds=300))
    live.refresh()
    live.closed()
    printed = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "[1/12] train [base]: done in 5 min 00 s" in printed
    assert "1 of 12 stages settled" in printed


@pytest.mark.parametrize("apart", [False, True])
def test_a_live_board_through_a_whole_run(tmp_path: Path, apart: bool):
    """Its own thread or the runner's calls draw it while a stage is at work."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    stages = [Stage("sleep", lambda directory, needed, log: time.sleep(2), cost=1), *STAGES]
    report = run(stages, tmp_path, apart=apart, watcher=LiveDisplay(console, apart))
    printed = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "▶  sleep" in printed
    assert "2 done, 1 failed, 1 skipped" in printed
    assert "▶" not in report.outcomes[0].log.read_text()


def test_the_plan_as_a_table(tmp_path: Path):
    run(STAGES, tmp_path, only=["train*"])
    console = Console(file=io.StringIO(), width=80)
    console.print(plan_table(plan(STAGES, tmp_path, only=["align"])))
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert rows == [
        ["train [base]", "done", "5 min 00 s"],
        ["align", "to do", "1 min 00 s"],
        ["tune", "skipped", "30 s"],
    ]
    assert "about 1 min 00 s to do" in text


def test_the_last_line_of_a_log(tmp_path: Path):
    path = tmp_path / "log.txt"
    assert last_line(path) == ""
    path.write_text("x" * 9000 + "\nepoch 7 ü\n  \n")
    assert last_line(path) == "epoch 7 ü"
    path.write_bytes("ü".encode() * 5000)  # cut through a character
    assert last_line(path).endswith("üüü")
