"""What the guides tell people to type is what the program takes."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from npda.cli import app

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS: Any = typer.main.get_command(app)  # a Group of click's, which typer may bring along itself

_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:\S.* -m )?npda (?P<words>.+)$", re.MULTILINE)
_INLINE = re.compile(r"`npda (?P<words>[a-z][^`]*)`")


def command_lines(guide: str) -> list[str]:
    """Of all blocks that are not Python, without continuation lines and comments; a loop over languages meets one."""
    guide = guide.replace("$xx", "de")
    blocks = [block for language, block in _BLOCK.findall(guide) if language != "python"]
    return [found["words"] for block in blocks for found in _COMMAND.finditer(block.replace("\\\n", " "))]


def mentions(guide: str) -> list[str]:
    return [found["words"] for found in _INLINE.finditer(_BLOCK.sub("", guide))]


def imported(guide: str) -> list[tuple[str, str]]:
    """(module, name) of everything the Python of a guide imports from npda."""
    names = []
    for language, block in _BLOCK.findall(guide):
        for node in ast.walk(ast.parse(block)) if language == "python" else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "npda":
                names += [(node.module or "", alias.name) for alias in node.names]
    return names


def verb(words: list[str]) -> tuple[Any, list[str]]:
    """The command that is meant, and its arguments."""
    command, rest = COMMANDS, list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def of_all(find) -> list:
    return [pytest.param(found, id=f"{guide.name}: {found}") for guide in GUIDES for found in find(guide.read_text())]


@pytest.mark.parametrize("line", of_all(command_lines))
def test_every_command_is_one(line: str):
    """Parsed with all its options, required ones included, and not run."""
    command, arguments = verb(shlex.split(line, comments=True))
    command.make_context("npda", arguments)


@pytest.mark.parametrize("line", of_all(mentions))
def test_every_option_spoken_of_is_there(line: str):
    command, arguments = verb(line.split())
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in arguments if word.startswith("--") and word != "--help"} <= known


@pytest.mark.parametrize("name", of_all(imported))
def test_every_import_is_there(name: tuple[str, str]):
    assert hasattr(importlib.import_module(name[0]), name[1])


def test_a_mistyped_command_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        test_every_command_is_one("translate speech.wav --modle runs/base")
    with pytest.raises(Exception, match="Missing parameter"):
        test_every_command_is_one("tune --model runs/base")
    with pytest.raises(KeyError, match="transalte"):
        test_every_command_is_one("transalte speech.wav --model runs/base")
