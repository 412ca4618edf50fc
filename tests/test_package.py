"""What ``import npda`` offers."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import said
import soundfile
import tiny_store
import yaml

import npda

ROOT = Path(__file__).parents[1]


def test_names_are_imported_when_asked_for():
    program = (
        "import sys, npda\n"
        "assert 'torch' not in sys.modules and 'faiss' not in sys.modules\n"
        "from npda import Datastore, SearchOptions, Translation, Translator\n"
        "assert Translator.__module__ == 'npda.translator' and Datastore.__module__ == 'npda.datastore.store'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    for name in npda.__all__:
        assert name in dir(npda)
        assert getattr(npda, name).__name__ == name
    homes = {name for names in npda._HOMES.values() for name in names}
    assert homes == set(npda.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Transformer'"):
        npda.Transformer  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_a_store_from_pairs_steers_a_translation(tmp_path, monkeypatch):
    """A few lines from the model to a translation that the store decides: only pieces of its target come out."""
    from npda import Datastore, Translator

    monkeypatch.chdir(tmp_path)
    tiny_store.backbone().save_pretrained("model-dir")
    soundfile.write("speech.wav", said.speech(16_000), 16_000)

    t = Translator.from_pretrained("model-dir")
    pairs = [("the floor is yours", "Sie haben das Wort"), ("we opened the window", "Sie haben das Wort")]
    store = Datastore.build(t, pairs=pairs, path="store")
    translation = t.translate("speech.wav", datastore=store, k=16, lambda_=1.0, temperature=10)

    assert set(translation.text) <= set("Sie haben das Wort")  # with λ = 1 nothing else has a probability
    assert translation.text != t.translate("speech.wav").text
    assert Datastore.open("store", t.backbone).digest == store.digest


def test_only_processors_this_process_may_use_are_counted(monkeypatch):
    import os

    from npda.io.cores import cores

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5}, raising=False)
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores() == 7


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "npda.__version__"}


def test_pre_commit_checks_what_make_lint_checks():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    makefile = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    (lint,) = re.findall(r"^lint:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    assert [hook["entry"] for hook in hooks] == lint.replace("\t", "").splitlines()


def test_the_package_says_that_it_is_typed_and_under_which_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (Path(npda.__file__).parent / "py.typed").is_file()
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["npda"]
    assert project["project"]["license"] == "Apache-2.0"
    assert "Copyright 2026 The npda authors" in (ROOT / "LICENSE").read_text()


def test_the_changelog_knows_the_version():
    assert f"\n## {npda.__version__} " in (ROOT / "CHANGELOG.md").read_text()
