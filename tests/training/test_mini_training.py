"""The demonstration from nothing: good at home and lost in parliament, until it reads the text of parliament."""

import json

import pytest
from command_line import npda


@pytest.mark.slow
def test_trained_from_scratch_it_learns_parliament_from_text(tmp_path):
    answer = npda("demo", "--from-scratch", "--out", tmp_path / "demo", "--json", timeout=3000)
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    base, adapted, upper = (report["systems"][name] for name in ("E2E-ST-Base", "NPDA-kNN-ST", "kNN-MT"))
    assert base["general"] >= 75
    assert base["domain"] <= 30
    assert adapted["domain"] >= 60
    assert adapted["domain"] >= upper["domain"] - 5
    assert adapted["domain"] >= report["search"]["greedy"]
    assert adapted["p_vs_base"] < 0.01

    again = json.loads(npda("demo", "--from-scratch", "--out", tmp_path / "demo", "--json").stdout)
    assert again["systems"] == report["systems"]
    assert again["seconds"]["train"] < 60
