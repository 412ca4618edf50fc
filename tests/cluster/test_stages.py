"""Stages that run on the machines of a cluster."""

from __future__ import annotations

from functools import partial

import cluster_stages
import pytest

from npda.stages.plan import Stage
from npda.stages.run import run

pytest.importorskip("ray", reason="needs Ray: pip install 'npda[cluster]'")

from npda.cluster.stages import stages_on


@pytest.mark.slow
def test_stages_run_elsewhere_in_their_order_and_again_when_their_process_is_killed(machines, tmp_path):
    stages = [
        Stage("a", partial(cluster_stages.writes, words="one"), None),
        Stage("b", partial(cluster_stages.writes, words="two"), None, ("a",)),
        Stage("killed", cluster_stages.is_killed_once, None),
        Stage("fails", cluster_stages.fails, None),
        Stage("after", partial(cluster_stages.writes, words="never"), None, ("fails",)),
    ]
    with stages_on(machines.address, 1) as (start, room):
        assert room >= 1
        report = run(stages, tmp_path, jobs=room, apart=True, start=start)
        again = run(stages[:3], tmp_path, jobs=room, apart=True, start=start)
    outcomes = {outcome.step.name: (outcome.state, outcome.reason) for outcome in report.outcomes}
    assert outcomes["fails"] == ("failed", "nothing to do it with")
    assert outcomes["after"] == ("skipped", "fails failed")
    assert (report.directories["b"] / "out.txt").read_text() == "one two"
    assert (report.directories["killed"] / "out.txt").read_text() == "survived"
    assert {outcome.state for outcome in again.outcomes} == {"found"}
