"""Interrupted runs end like uninterrupted ones, bit by bit, wherever they were interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tiny
import tiny_training
from torch import nn

import npda.training.loop.checkpoints as checkpoints
from npda.io.errors import InputError
from npda.training.loop.checkpoints import Checkpoints
from npda.training.loop.log import TrainingLog
from npda.training.loop.run import Run

SCRIPT = Path(tiny_training.__file__)


class Killed(BaseException):
    """Stands for a signal that ends the process at once."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    tiny_training.run(directory / "data", directory / "out")
    return directory


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def log(out: Path) -> list[dict]:
    """The log without what a clock says."""
    entries = TrainingLog(out / "train" / "log.jsonl").read()
    return [{k: v for k, v in e.items() if k not in ("seconds", "frames_per_second")} for e in entries]


def test_a_killed_process_goes_on_where_it_was(uninterrupted, tmp_path):
    process = subprocess.Popen([sys.executable, SCRIPT, uninterrupted / "data", tmp_path / "out"])
    path, deadline = tmp_path / "out" / "train" / "log.jsonl", time.monotonic() + 300
    while '"update": 5' not in (path.read_text() if path.exists() else ""):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out" / "config.json").exists()
    assert (tmp_path / "out" / "train" / "checkpoints" / "state-00000004").exists()

    tiny_training.run(uninterrupted / "data", tmp_path / "out")
    assert weights(tmp_path / "out") == weights(uninterrupted / "out")
    assert log(tmp_path / "out") == log(uninterrupted / "out")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", [3, 5, 7, 10, 18, 27])
def test_killed_while_writing(uninterrupted, tmp_path, monkeypatch, number, after):
    """The n-th file written or renamed is the last thing that happens, before or after its effect.

    In their order: settings, log, parameters, moments, state after 2 updates; best, its place, parameters, moments,
    state after 3; …; state after 6 (18); files of the final model, its weights (27).
    """
    calls = 0
    for module, name in ((os, "rename"), (os, "replace"), (checkpoints, "save_file")):
        real = getattr(module, name)

        def last(*arguments, real=real):
            nonlocal calls
            calls += 1
            if calls == number:
                if after:
                    real(*arguments)
                raise Killed
            return real(*arguments)

        monkeypatch.setattr(module, name, last)
    monkeypatch.setattr("shutil.rmtree", lambda *arguments, **options: None)  # nobody cleans up after a kill
    monkeypatch.setattr(Path, "unlink", lambda *arguments, **options: None)
    with pytest.raises(Killed):
        tiny_training.run(uninterrupted / "data", tmp_path / "out")
    monkeypatch.undo()
    tiny_training.run(uninterrupted / "data", tmp_path / "out")
    assert weights(tmp_path / "out") == weights(uninterrupted / "out")
    assert log(tmp_path / "out") == log(uninterrupted / "out")


def test_a_finished_run_is_not_done_again(uninterrupted):
    before = weights(uninterrupted / "out"), log(uninterrupted / "out")
    (uninterrupted / "out" / "model.safetensors").unlink()
    summary = tiny_training.run(uninterrupted / "data", uninterrupted / "out")
    assert (weights(uninterrupted / "out"), log(uninterrupted / "out")) == before
    assert summary.updates == before[1][-1]["update"]


def test_a_run_may_be_made_longer(uninterrupted, tmp_path):
    tiny_training.run(
        uninterrupted / "data", tmp_path / "out", replace(tiny_training.SETTINGS, max_epochs=1, average=1)
    )
    longer = replace(tiny_training.SETTINGS, max_epochs=2, average=1, save_every=3)
    summary = tiny_training.run(uninterrupted / "data", tmp_path / "out", longer)
    assert summary.epochs == 2
    stored = json.loads((tmp_path / "out" / "train" / "settings.json").read_text())
    assert stored["settings"]["max_epochs"] == 2


def test_other_settings_and_other_data_are_refused_by_name(uninterrupted, tmp_path):
    before = weights(uninterrupted / "out")
    other = replace(tiny_training.SETTINGS, learning_rate=5e-4, seed=9)
    with pytest.raises(InputError, match=r"seed was 1, now 9; learning_rate was 0.001, now 0.0005"):
        tiny_training.run(uninterrupted / "data", uninterrupted / "out", other)
    (tmp_path / "out").symlink_to(uninterrupted / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "SENTENCES", tiny.SENTENCES[::-1])
        tiny.vocabulary.cache_clear()
        with pytest.raises(InputError, match=r"train was .*; dev was "):
            tiny_training.run(uninterrupted / "data", tmp_path / "out")
    tiny.vocabulary.cache_clear()
    assert weights(uninterrupted / "out") == before


def test_a_cosine_keeps_its_end():
    cosine = replace(tiny_training.SETTINGS, schedule="cosine")
    assert "max_epochs" not in cosine.changeable()
    assert "max_epochs" in tiny_training.SETTINGS.changeable()


def test_nothing_is_left_lying_about(uninterrupted):
    names = sorted(p.name for p in (uninterrupted / "out" / "train").rglob("*") if p.is_file())
    assert [n for n in names if n.startswith("best-")] == ["best-00000003.safetensors", "best-00000006.safetensors"]
    assert len([n for n in names if n == "state.json"]) == 1
    assert not [n for n in names if n.startswith(".")]


def test_the_average_is_the_mean(tmp_path):
    made = Checkpoints(tmp_path)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    stored = []
    for update in (1, 2, 3):
        module[0].weight.data.normal_()  # pyright: ignore
        module[1].running_mean.normal_()  # pyright: ignore
        made.keep(update, module)
        stored.append(safetensors.numpy.load_file(tmp_path / f"best-{update:08d}.safetensors"))
    averaged = made.average((1, 2, 3))
    for name in ("0.weight", "0.bias", "1.running_mean"):
        np.testing.assert_allclose(averaged[name].numpy(), np.mean([s[name] for s in stored], axis=0), rtol=1e-6)
    assert averaged["1.num_batches_tracked"] == 0


def test_only_one_process_trains_in_a_directory(uninterrupted, tmp_path):
    first = Run(tmp_path / "out", tiny_training.SETTINGS, {})
    with first, pytest.raises(InputError, match="Another process is training"):
        tiny_training.run(uninterrupted / "data", tmp_path / "out")


def test_a_damaged_checkpoint_is_named(uninterrupted, tmp_path):
    tiny_training.run(uninterrupted / "data", tmp_path / "out", replace(tiny_training.SETTINGS, max_epochs=1))
    (state,) = (tmp_path / "out" / "train" / "checkpoints").glob("state-*")
    (state / "moments.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"moments\.safetensors cannot be read"):
        tiny_training.run(uninterrupted / "data", tmp_path / "out", replace(tiny_training.SETTINGS, max_epochs=1))
