"""Every example in help texts and guides runs after a demonstration, in the order it is written down.

Here the demonstration is a small one of the shipped model, and verbs that train are only checked for what they read;
the slow tests run `npda demo` itself and then everything. Examples that need something that nobody can ship (a model
of the hub, a published corpus) name it; in guides, a block of them is marked ```` ```bash own-data ````. The Python of
guides runs with the commands around it, each block after those before it.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import typer
from nbclient import NotebookClient
from typer.testing import CliRunner

from npda.cli import app
from npda.corpus.mini import speech
from npda.corpus.mini.grammar import sentences
from npda.decoding.beam import SearchOptions
from npda.demo.demo import run_demo
from npda.demo.stages import DemoOptions

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
COMMANDS: Any = typer.main.get_command(app)
VERBS: dict[str, Any] = {name: command for name, command in COMMANDS.commands.items() if name != "prepare"}
ELSEWHERE = ("openai/", "pico:", "piper:", "torchrun", "recipes/mustc")  # what the demonstration does not leave
NEEDED = {"whisper.ipynb": "whisper-base"}  # models that notebooks need, in the folder NPDA_MODELS
TRAINING = {"train", "train-text", "align"}
LONG = {*TRAINING, "adapt", "demo", "mini", "reproduce"}
SIZES = {"train": 60, "dev": 6, "test": 6}

OWN_TEST = {"extending.md", "api.md", "live.md"}  # guides whose Python other tests run

_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def lines(text: str) -> list[str]:
    """Commands, each in one line, without comments."""
    found = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return [" ".join(line.split("  #")[0].split()) for line in found if re.match(r"(npda|torchrun) \S", line)]


def in_help(verb: str) -> list[str]:
    return lines(VERBS[verb].help.partition("Examples:")[2])


def in_guide(guide: Path) -> list[str]:
    blocks = _BLOCK.findall(guide.read_text(encoding="utf-8"))
    return [
        line
        for language, mark, block in blocks
        if language in ("", "bash") and "own-data" not in mark
        for line in lines(block)
    ]


def steps(guide: Path) -> Iterator[tuple[bool, str]]:
    """What a guide does after the demonstration, in its order: (whether it is Python, a command or a block)."""
    for language, mark, block in _BLOCK.findall(guide.read_text(encoding="utf-8")):
        if "own-data" in mark:
            continue
        if language == "python" and guide.name not in OWN_TEST:
            yield True, block
        elif language in ("", "bash"):
            yield from ((False, line) for line in filter(can_run, lines(block)))


def can_run(line: str) -> bool:
    return not any(name in line for name in ELSEWHERE)


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which a small `npda demo` has run."""
    folder = tmp_path_factory.mktemp("examples")

    def few(domain: str, split: str, language: str = "de", seed: int = 0):
        return sentences(domain, split, language, seed)[: SIZES[split]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speech, "sentences", few)
        patch.setenv("NPDA_CACHE", str(tmp_path_factory.mktemp("cache")))
        options = DemoOptions(search=SearchOptions(beam=2, max_length=20), decodes=1, fractions=(1 / 2,), processes=1)
        run_demo(folder / "runs" / "demo", options=options, progress=False)
        yield folder


def run(line: str, folder: Path, more: Iterable[str] = ()) -> None:
    """Run a line in the folder; what one command prints, the next one after a | reads."""
    said = b""
    for command in line.split(" | "):
        words = shlex.split(command)
        assert words[0] == "npda", command
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            answer = CliRunner().invoke(app, [*words[1:], *more], input=said)
        assert answer.exit_code == 0, f"{command}\n{answer.output}\n{answer.exception!r}"
        said = answer.stdout_bytes


def there(line: str, folder: Path) -> None:
    """Everything of the demonstration that a line names exists."""
    for word in shlex.split(line):
        if word.startswith("runs/demo/"):
            assert (folder / word).exists(), f"{word} in {line}"
        if word.startswith("recipes/"):
            assert (ROOT / word).is_file(), f"{word} in {line}"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples_that_can_run(verb: str, demonstration: Path):
    found = in_help(verb)
    assert any(map(can_run, found))
    for line in found:
        there(line, demonstration)
        for command in line.split(" | "):
            words = shlex.split(command)
            words = words[words.index("npda") + 1 :]
            VERBS[words[0]].make_context("npda", words[1:])


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_guides_name_what_the_demonstration_leaves(guide: Path, demonstration: Path):
    for line in in_guide(guide):
        there(line, demonstration)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in LONG])
def test_examples_run(verb: str, demonstration: Path):
    for line in filter(can_run, in_help(verb)):
        run(line, demonstration, ["--check"] if verb == "serve" else [])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which `npda demo` itself has run."""
    folder = tmp_path_factory.mktemp("finished")
    run("npda demo --quiet", folder)
    os.symlink(ROOT / "recipes", folder / "recipes")
    return folder


def shortened(line: str) -> list[str]:
    """Options that make a long example short: what is trained need not be good."""
    verb = shlex.split(line)[1]
    options = {"reproduce": ["--dry-run"], "serve": ["--check"], **{name: ["--max-epochs", "1"] for name in TRAINING}}
    return options.get(verb, [])


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_examples_run_after_the_real_demonstration(verb: str, finished: Path):
    for line in filter(can_run, in_help(verb)):
        if "--from-scratch" not in line:
            run(line, finished, shortened(line))


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_guides_run_after_the_real_demonstration(guide: Path, finished: Path):
    left: dict[str, Any] = {"__name__": guide.stem}
    for is_python, step in steps(guide):
        if is_python:
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(finished)
                exec(compile(step, guide.name, "exec"), left)
        else:
            run(step, finished, shortened(step))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_notebooks_run_after_the_real_demonstration(notebook: Path, finished: Path):
    """From top to bottom, without an error; the pictures in the repository are those of its cells."""
    needed = NEEDED.get(notebook.name)
    if needed and not (Path(os.environ.get("NPDA_MODELS", "")) / needed / "config.json").is_file():
        pytest.skip(f"needs the weights of {needed}: NPDA_MODELS names the folder that holds them")
    found = nbformat.read(notebook, as_version=4)
    NotebookClient(found, timeout=600, resources={"metadata": {"path": str(finished)}}).execute()
    for cell, kept in zip(found.cells, nbformat.read(notebook, as_version=4).cells, strict=True):
        # What is printed may come in any number of pieces.
        assert shown(cell) == shown(kept)


def shown(cell: Any) -> set[str]:
    """The kinds of a cell's outputs."""
    return {output.output_type for output in cell.get("outputs", ()) if output.get("name") != "stderr"}
