"""What an earlier version made still opens and gives the same translations.

tests/fixtures/version-0.1.0 was written by that version: a store with a Faiss index, a tuned store and the folder of
`npda adapt --adaptive`, with four clips and what that version translated them to.
"""

import json
import shutil
from pathlib import Path

import pytest
from command_line import npda

ROOT = Path(__file__).parents[1]
FIXTURE = Path(__file__).parent / "fixtures" / "version-0.1.0"
MODEL = ROOT / "src" / "npda" / "pretrained" / "mini-en-de"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED["translations"])
def test_the_same_translations(name: str):
    clips = sorted((FIXTURE / "clips").glob("*.flac"))
    done = npda("translate", *clips, "--model", MODEL, *EXPECTED["options"][name], "-f", "json", cwd=FIXTURE)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == EXPECTED["translations"][name]


def test_what_took_longest_of_an_adaptation_is_found(tmp_path: Path):
    """The results of an adaptation, which recorded no code, still count; searches and tuning have changed."""
    shutil.copytree(FIXTURE / "adapted", tmp_path / "adapted")
    given = ["--text", FIXTURE / "text.tsv", "--dev", FIXTURE / "dev.tsv", "--out", tmp_path / "adapted"]
    done = npda("adapt", "--model", MODEL, *given, "--adaptive", "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["found"]) == {"leaks", "store"}


@pytest.mark.parametrize("store", ["store", "tuned", "adapted/store"])
def test_every_byte_is_in_its_place(store: str):
    done = npda("inspect", FIXTURE / store, "--verify")
    assert done.returncode == 0, done.stderr
