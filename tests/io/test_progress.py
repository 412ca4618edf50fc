"""Progress where standard error is no terminal: plain lines, by a clock that the test holds."""

import queue
import sys

import pytest

from npda.io.progress import SHORT, Lines, bar, duration, stage, track


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_stage_has_a_first_line_one_every_half_minute_and_a_last_one(clock: Clock):
    said: list[str] = []
    lines = Lines(said.append, clock=clock)
    task = lines.add_task("building talks.tsv", total=2000, note="")
    assert said == ["building talks.tsv …"]
    for _ in range(100):  # 100 s, one advance a second
        clock.now += 1
        lines.advance(task, 10)
    assert said[1:] == [
        "building talks.tsv: 300 of 2,000 (15%), 30 s, ETA 2 min 50 s",
        "building talks.tsv: 600 of 2,000 (30%), 1 min 00 s, ETA 2 min 20 s",
        "building talks.tsv: 900 of 2,000 (45%), 1 min 30 s, ETA 1 min 50 s",
    ]
    lines.update(task, completed=2000, note="40,000 keys")
    lines.close()
    assert said[-1] == "building talks.tsv: done, 2,000 in 1 min 40 s, 40,000 keys"


def test_one_item_that_takes_long_does_not_make_it_silent(clock: Clock):
    said: list[str] = []
    lines = Lines(said.append, clock=clock)
    lines.add_task("loading whisper", total=None, note="")
    for clock.now in (29.9, 30, 45, 60):
        lines.tick()
    assert said == ["loading whisper …", "loading whisper: 30 s", "loading whisper: 1 min 00 s"]


def test_the_watching_thread_writes_lines_by_itself():
    said: queue.Queue[str] = queue.Queue()
    with Lines(said.put, every=0.0).watched(step=0.001) as lines:
        lines.add_task("waiting", total=None, note="")
        assert said.get(timeout=600) == "waiting …"
        assert said.get(timeout=600).startswith("waiting: ")
        assert said.get(timeout=600).startswith("waiting: ")


def test_a_short_stage_of_a_short_command_says_nothing(clock: Clock):
    said: list[str] = []
    lines = Lines(said.append, after=SHORT, clock=clock)
    task = lines.add_task("translating", total=10, note="seconds of audio")
    clock.now = SHORT - 0.1
    lines.advance(task, 4)
    lines.close()
    assert said == []

    task = lines.add_task("translating", total=10, note="seconds of audio")
    clock.now += SHORT
    lines.advance(task, 5)
    clock.now += 1
    lines.advance(task, 5)
    lines.close()
    assert said == [
        "translating: 5 of 10 (50%), 5 s, ETA 5 s, seconds of audio",
        "translating: done, 10 in 6 s, seconds of audio",
    ]


def test_every_part_of_a_stage_gets_its_line(clock: Clock):
    said: list[str] = []
    lines = Lines(said.append, clock=clock)
    task = lines.add_task("tuning: likelihood", total=None, note="")
    lines.update(task, description="tuning: model alone")
    lines.update(task, description="tuning: model alone")
    assert said == ["tuning: likelihood …", "tuning: model alone: 0 s"]


def test_what_was_done_before_does_not_count_for_the_eta(clock: Clock):
    said: list[str] = []
    lines = Lines(said.append, clock=clock)
    task = lines.add_task("training", total=1000, completed=900, note="")
    clock.now = 30
    lines.update(task, completed=910)
    assert said[-1] == "training: 910 of 1,000 (91%), 30 s, ETA 4 min 30 s"


def test_a_stage_that_fails_is_not_said_to_be_done(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="no"), stage("loading"):
        raise ValueError("no")
    assert capsys.readouterr().err == "npda: loading …\nnpda: loading: stopped after 0 s\n"


def test_lines_go_to_standard_error_and_only_if_they_are_wanted(capsys: pytest.CaptureFixture[str]):
    assert list(track("abc", "reading")) == ["a", "b", "c"]
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err == "npda: reading …\nnpda: reading: done, 3 in 0 s\n"
    assert list(track("abc", "reading", enabled=False)) == ["a", "b", "c"]
    with bar(False) as display:
        display.update(display.add_task("reading", total=3, note=""), advance=1, description="other", note="note")
    assert capsys.readouterr() == ("", "")


def test_who_leaves_early_has_not_failed(capsys: pytest.CaptureFixture[str]):
    tracked = track("abc", "reading")
    next(tracked)
    tracked.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert capsys.readouterr().err.endswith("reading: done in 0 s\n")


def test_a_terminal_gets_bars_instead(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    assert sys.stderr is not None
    list(track("abc", "reading"))
    written = capsys.readouterr().err
    assert "npda: " not in written
    assert "3/3" in written


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (250, "4 min 10 s"), (3900, "1 h 05 min")]
)
def test_durations_are_easy_to_read(seconds: float, text: str):
    assert duration(seconds) == text
