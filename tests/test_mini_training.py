"""The embedded corpus, from nothing to a translator that is good at home and lost in parliament."""

import json

import pytest
from test_cli import npda


@pytest.mark.slow
def test_trained_from_scratch_it_knows_everyday_talk_but_not_parliament(tmp_path):
    answer = npda("demo", "--out", tmp_path / "demo", "--json", timeout=1500)
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    base = report["systems"]["E2E-ST-Base"]
    assert base["general"] >= 75
    assert base["domain"] <= 30
    assert report["seconds"].keys() == {"corpus", "train", "translate"}

    again = json.loads(npda("demo", "--out", tmp_path / "demo", "--json").stdout)
    assert again["systems"] == report["systems"]
    assert again["seconds"]["train"] < 60
