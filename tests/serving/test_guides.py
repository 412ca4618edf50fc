"""What the guides tell people to type works on a server."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import mini_stores
import pytest
import soundfile
from serving_fakes import listening

from npda.serving.app import create_app
from npda.serving.settings import Settings
from npda.translator import Translator

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:8765"
PATIENCE = 240
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(guide: str, language: str) -> list[str]:
    text = (ROOT / "docs" / guide).read_text(encoding="utf-8")
    return [block for kind, block in _BLOCK.findall(text) if kind == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With what the examples name, as `npda serve` without options has it."""
    folder = tmp_path_factory.mktemp("guides")
    translator = Translator.from_pretrained(mini_stores.model(folder / "model"))
    mini_stores.store(translator, folder / "stores" / "parliament", mini_stores.parliament())
    soundfile.write(folder / "speech.wav", mini_stores.said("The cabinet threw out this paper."), 16_000)
    rows = "".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in mini_stores.parliament(160)[100:])
    (folder / "debates.tsv").write_text(f"src_text\ttgt_text\n{rows}")
    return folder


@pytest.fixture(scope="module")
def address(folder) -> Iterator[str]:
    settings = Settings({"mini": folder / "model"}, folder / "data", folder / "stores", device="cpu")
    with listening(create_app(settings)) as url:
        yield url.removeprefix("http://")


@pytest.fixture(autouse=True)
def there(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)


def run(command: list[str], said: str) -> str:
    """Give a program something to read. → what it prints"""
    found = subprocess.run(command, input=said, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("block", blocks("api.md", "sh"))
def test_lines_for_curl(address, block):
    lines = block.replace(ADDRESS, address).strip().splitlines()
    said = run(["bash", "-eu"], "".join(f"curl -sS --fail-with-body {line.removeprefix('curl ')}\n" for line in lines))
    assert said


@pytest.mark.parametrize("block", [*blocks("api.md", "python"), *blocks("live.md", "python")])
def test_python(address, block, capsys):
    exec(compile(block.replace(ADDRESS, address), "guide", "exec"), {})
    said = capsys.readouterr().out
    assert said
    assert "error" not in said.lower()


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
@pytest.mark.parametrize("block", blocks("api.md", "js"))
def test_javascript(address, block):
    before = 'const file = new Blob([require("fs").readFileSync("speech.wav")]);\n'
    script = f"{before}(async () => {{\n{block.replace(ADDRESS, address)}\n}})();"
    assert "Dokument" in run(["node", "-"], script)
