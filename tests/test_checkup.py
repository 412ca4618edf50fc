"""npda doctor: what it finds, and what it says where something is wrong."""

import json

import pytest
from typer.testing import CliRunner

from npda import checkup
from npda.cli import app


def run(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_the_shipped_model_gives_its_known_translation():
    result = run("--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert found["sample"] == {"said": checkup.SAID, "known": checkup.KNOWN, "found": checkup.KNOWN, "is_right": True}
    assert found["cores"] >= 1
    assert found["libraries"]["torch"]
    assert {extra["name"] for extra in found["extras"]} >= {"serve", "vad", "dev"}


def test_a_model_that_translates_otherwise_is_reported(monkeypatch):
    wrong = checkup.Sample(checkup.SAID, checkup.KNOWN, "Die Sitzung.")
    monkeypatch.setattr(checkup, "try_model", lambda: wrong)
    result = run()
    assert result.exit_code == 1
    assert "Die Sitzung. (should be: Die erste Sitzung" in result.stdout
    assert "Everything works." not in result.stdout


def test_what_an_extra_lacks_is_named(monkeypatch):
    """Also what it needs by way of another extra; what its marker rules out is not needed."""
    needs = [
        "torch>=2",
        'fastapi>=0.1; extra == "serve"',
        'npda[vad]; extra == "serve"',
        'silero-vad; extra == "vad"',
        'windows-only; sys_platform == "nowhere" and extra == "serve"',
    ]
    monkeypatch.setattr(checkup, "requires", lambda package: needs)
    monkeypatch.setattr(checkup, "_version", lambda name: "1.0" if name == "fastapi" else "")
    missing = {extra.name: extra.missing for extra in checkup.extras()}
    assert missing["serve"] == ("silero-vad",)
    assert missing["vad"] == ("silero-vad",)


@pytest.mark.parametrize("missing", [(), ("fastapi", "uvicorn")])
def test_the_page_of_a_machine_reads_well(monkeypatch, missing, tmp_path):
    machine = checkup.Machine(
        "1.0", "3.11", "Linux", 2, "cuda", {"torch": ""}, (checkup.Extra("serve", missing),), tmp_path, 10**9
    )
    monkeypatch.setattr(checkup, "examine", lambda: machine)
    monkeypatch.setattr(checkup, "try_model", lambda: checkup.Sample("a", "b", "b"))
    shown = run().stdout
    assert "torch missing" in shown
    assert "accelerator  cuda" in shown
    assert ("[serve]      not installed: fastapi, uvicorn" if missing else "[serve]      installed") in shown
