"""What all verbs share: how much they say, languages by name, the list of verbs."""

import json
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from npda import __version__
from npda.cli import GROUPS, app, main
from npda.cli.options import Language, Quiet, Verbose, codes, shows_progress
from npda.cli.translate import translate
from npda.corpus.pairs import Pair, write_pairs
from npda.io.errors import InputError

LONG = {
    "adapt", "align", "build", "compress", "demo", "evaluate", "explain", "filter", "inspect", "mini",
    "reproduce", "synthesize", "train", "train-text", "translate", "tune",
}  # fmt: skip


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """As many pairs as no held-out set knows."""
    path = tmp_path / "pairs.tsv"
    write_pairs(path, [Pair(f"this is sentence {n}", f"das ist Satz {n}", f"p{n}") for n in range(5)])
    return path


def test_the_version():
    answer = CliRunner().invoke(app, ["--version"])
    assert (answer.exit_code, answer.output) == (0, f"npda {__version__}\n")


def test_every_verb_has_its_group_and_says_how_much_to_say():
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    assert {verb.__name__.strip("_").replace("_", "-") for verbs in GROUPS.values() for verb in verbs} == set(
        commands
    ) - {"prepare"}
    verbs = {name: commands[name] for name in LONG} | commands["prepare"].commands
    for name, verb in verbs.items():
        options = {option for parameter in verb.params for option in parameter.opts}
        assert {"--quiet", "-q", "--verbose", "-v"} <= options, name


def test_listening_for_terms_needs_a_list():
    with pytest.raises(InputError, match="give a list with --terms"):
        translate(["speech.wav"], "model", attentive=True)


def test_every_option_has_a_help_text():
    commands = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    for name, verb in (commands | commands["prepare"].commands).items():
        for parameter in verb.params:
            assert getattr(parameter, "hidden", False) or parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize(
    ("quiet", "verbose", "as_json", "shown"),
    [
        (False, False, False, True),
        (False, False, True, False),
        (False, True, True, True),
        (True, False, False, False),
        (True, True, True, False),
    ],
)
def test_json_is_silent_unless_told_otherwise(quiet: bool, verbose: bool, as_json: bool, shown: bool):
    assert shows_progress(quiet, verbose, as_json) is shown


def test_a_long_verb_says_what_it_does(pairs: Path, tmp_path: Path):
    """In a process of its own, whose standard error is no terminal."""
    command = [sys.executable, "-m", "npda", "synthesize", str(pairs), "--voice", "espeak:en-us", "--out"]

    def errors(out: str, *more: str) -> list[str]:
        answer = subprocess.run([*command, str(tmp_path / out), *more], capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout
        return answer.stderr.splitlines()

    begun, ended = errors("plain")
    assert begun == "npda: speaking pairs …"
    assert ended.startswith("npda: speaking pairs: done, 5 in ")
    assert errors("quiet", "--quiet") == []
    assert errors("json", "--json") == []
    assert len(errors("both", "--json", "--verbose")) >= 2


def test_quiet_and_verbose_end_with_their_verb():
    small = typer.Typer()
    logger, filters = logging.getLogger("npda.something"), list(warnings.filters)

    @small.command()
    def speak(quiet: Quiet = False, verbose: Verbose = False) -> None:
        logger.info("an info")
        logger.warning("a warning")
        logger.error("an error")
        warnings.warn("deprecated", stacklevel=1)

    with pytest.warns(UserWarning, match="deprecated"):
        plain = CliRunner().invoke(small, [], catch_exceptions=False).stderr
    assert "an info" not in plain
    quiet = CliRunner().invoke(small, ["--quiet"], catch_exceptions=False)
    assert "a warning" not in quiet.stderr
    assert "deprecated" not in quiet.stderr
    loud = CliRunner().invoke(small, ["--verbose"], catch_exceptions=False)
    assert "npda: npda.something: an info\n" in loud.stderr
    assert "deprecated" in loud.stderr
    assert not logging.root.manager.disable
    assert list(warnings.filters) == filters


@pytest.mark.parametrize(("given", "code"), [("German", "de"), ("deutsch", "de"), ("de", "de"), ("deu", "deu")])
def test_languages_by_name(given: str, code: str):
    heard: list[str | None] = []
    small = typer.Typer()

    @small.command()
    def speak(language: Language = None) -> None:
        heard.append(language)

    assert CliRunner().invoke(small, ["--language", given]).exit_code == 0
    assert heard == [code]
    assert codes([given, "French"]) == [code, "fr"]
    assert codes(None) is None


def test_an_unknown_language_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", ["npda", "mini", "--language", "Gemran"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == ("npda: There is no language called 'Gemran'; did you mean German (de)?\n")


def test_filter_takes_the_old_spelling_of_its_language_too(tmp_path: Path, pairs: Path):
    memory = tmp_path / "memory.tmx"
    units = "".join(
        f'<tu><tuv xml:lang="{s}"><seg>A sentence {n}</seg></tuv><tuv xml:lang="de"><seg>Ein Satz {n}</seg></tuv></tu>'
        for n, s in enumerate(("en", "en"))
    )
    memory.write_text(f'<?xml version="1.0"?><tmx version="1.4"><header/><body>{units}</body></tmx>')
    for option in ("--language", "--target-language"):
        command = ["filter", str(memory), "--source-language", "English", option, "German", "--against", str(pairs)]
        answer = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "clean.tsv"), "--json"])
        assert answer.exit_code == 0, answer.output
        assert json.loads(answer.stdout)["kept"] == 2
    assert "--target-language" not in CliRunner().invoke(app, ["filter", "--help"], env={"COLUMNS": "200"}).output
