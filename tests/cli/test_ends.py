"""How a verb may end early: numbers out of range, signals, a reader that goes away, errors for programs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import command_line
import pytest
import typer

from npda.cli import app
from npda.cli.verbs import RANGES
from npda.datastore.index.spec import check_factory
from npda.decoding.beam import SearchOptions
from npda.decoding.knn.combiners import KnnOptions
from npda.io import limits
from npda.io.errors import InputError
from npda.training.loop.settings import TrainingSettings

NPDA = [sys.executable, "-c", "from npda.cli import main; main()"]


def numbers() -> list[tuple[list[str], str, type]]:
    """All options of all verbs that are numbers: verb, option, type."""
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    verbs = {(name,): verb for name, verb in commands.items() if name != "prepare"}
    verbs |= {("prepare", name): verb for name, verb in commands["prepare"].commands.items()}
    return [
        ([*name], max(parameter.opts, key=len), kind)
        for name, verb in verbs.items()
        for parameter in verb.params
        for kind in (int, float)
        if f"<{kind.__name__}" in (parameter.display_type(None) or "")
    ]


def needed(verb: Any, but: str) -> list[str]:
    """Something for every parameter that a verb cannot do without."""
    given = []
    for parameter in verb.params:
        option = max(parameter.opts, key=len)
        if parameter.required and option != but:
            value = "mt" if option == "--task" else "de"
            given += [value] if parameter.param_type_name == "argument" else [option, value]
    return given


def test_numbers_that_nobody_means_are_refused_by_every_verb():
    found = numbers()
    assert {option for _, option, _ in found} >= {"--k", "--temperature", "--beam", "--learning-rate", "--port"}
    for path, option, kind in found:
        verb: Any = typer.main.get_command(app)
        for name in path:
            verb = verb.commands[name]
        for value in ["nan", "inf", "-inf", "1e300"] if kind is float else [str(10**17), str(-(10**17))]:
            with pytest.raises(Exception) as refused:  # noqa: PT011 (typer's or ours, both sentences about the option)
                app([*path, *needed(verb, option), option, value], standalone_mode=False)
            error: Any = refused.value
            message = str(error) if isinstance(error, InputError) else error.format_message()
            assert option in message, (path, option, value)


def test_the_absurd_is_refused_in_python_too():
    options: dict[str, Any]
    for options in ({"k": 100_000}, {"temperature": float("nan")}, {"temperature": 1e-30}, {"lambda_": float("nan")}):
        with pytest.raises(ValueError, match="must be from"):
            KnnOptions(**options)
    for options in ({"beam": 5000}, {"length_penalty": 1e308}, {"length_penalty": float("nan")}):
        with pytest.raises(ValueError, match="must be from"):
            SearchOptions(**options)
    change: dict[str, Any]
    for change in ({"learning_rate": float("nan")}, {"clip": float("inf")}, {"seed": 1 << 70}):
        with pytest.raises(InputError, match="must be from"):
            TrainingSettings(**change)
    for index in ("IVF99999999,PQ64", "IVF64,PQ8x20", "HNSW" + "9" * 30, "IVF64,PQ99999"):
        with pytest.raises(InputError):
            check_factory(index, 64)
    check_factory("IVF8192,PQ64", 64)
    assert 1.0 not in limits.Range(2, 3)
    assert float("nan") not in limits.ANY
    assert {"k", "temperature", "beam", "length_penalty"} <= set(RANGES)


def _hear_signals() -> None:
    """What a shell runs in the background inherits an ignored Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(number: int, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A verb at work that gets a signal, once it has begun."""
    command = [*NPDA, "mini", "--out", str(out), *more]
    environment = {**os.environ, "NPDA_CACHE": str(out.parent / "cache"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=_hear_signals
    ) as running:
        deadline = time.monotonic() + 600
        while not any(out.parent.glob("**/*.flac")) and running.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert running.poll() is None, running.communicate()
        running.send_signal(number)
        output, errors = running.communicate(timeout=600)
    return subprocess.CompletedProcess(command, running.returncode, output, errors)


@pytest.mark.parametrize(
    ("number", "code", "name"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_end_a_verb_with_a_sentence(number: int, code: int, name: str, tmp_path: Path):
    ended = interrupted(number, tmp_path / "out", "--json")
    assert ended.returncode == code
    sentence = f"{name}; what was finished is kept."
    assert ended.stderr.splitlines()[-1] == f"npda: {sentence}"
    assert "Traceback" not in ended.stderr
    assert json.loads(ended.stdout) == {"error": {"code": name, "exit": code, "message": sentence}}


def test_a_reader_that_goes_away_is_no_fault():
    for arguments in ("-h", "translate -h"):
        command = f"{sys.executable} -c 'from npda.cli import main; main()' {arguments}"
        piped = subprocess.run(
            ["bash", "-c", f"{command} | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True
        )
        assert (piped.stdout, piped.stderr) == ("0\n", "")


def test_errors_for_programs():
    for arguments, code in ((("inspect", "nowhere", "--json"), "wrong_input"), (("inspect", "--json"), "usage")):
        answer = command_line.npda(*arguments)
        assert answer.returncode == 2
        error = json.loads(answer.stdout)["error"]
        assert (error["code"], error["exit"]) == (code, 2)
        assert error["message"].removesuffix(".") in answer.stderr.replace("│", "")
    assert command_line.npda("inspect", "nowhere").stdout == ""
