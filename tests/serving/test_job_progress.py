"""How far a job is."""

import pytest

from npda.io.progress import bar, shown_on, track
from npda.serving.stores.progress import JobProgress, Stopped


def test_parts_count_by_their_weights():
    now = 0.0
    progress = JobProgress(lambda: now)
    progress.plan({"building": 30, "tuning": 70})
    assert (progress.share, progress.eta) == (0.0, None)
    progress.begin("building")
    with shown_on(progress):
        with bar(enabled=False) as display:
            task = display.add_task("building talk", total=10, note="")
            now = 12.0
            display.update(task, advance=5, note="50 keys")
            assert progress.share == pytest.approx(0.15)
            assert progress.step == "building talk, 50 keys"
            assert progress.eta == pytest.approx(12 / 0.15 * 0.85)
            display.advance(task, 5)
        assert progress.share == pytest.approx(0.3)
        shares = [progress.share for _ in track(range(4), "measuring", enabled=False)]
        assert shares == [pytest.approx(0.3)] * 4  # nothing of it is lost when something else begins
        progress.begin("tuning")
        task = progress.add_task("tuning: likelihood", total=4, note="")
        progress.update(task, completed=1, description="tuning: k:8|λ:0.5")
        assert progress.step == "tuning: trying settings"
        assert progress.share == pytest.approx(0.3 + 0.7 / 4)


def test_whoever_reports_learns_that_the_job_is_over():
    progress = JobProgress()
    progress.plan({"building": 1})
    progress.begin("building")
    with shown_on(progress), bar() as display:
        task = display.add_task("building", total=2, note="")
        progress.cancel()
        assert progress.step == "cancelling"
        with pytest.raises(Stopped):
            display.advance(task)
        with pytest.raises(Stopped):
            progress.begin("building")
