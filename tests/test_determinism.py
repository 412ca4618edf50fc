"""What docs/limits.md promises of the same input: the same bytes again, and the same words in any company."""

import json
from pathlib import Path

import pytest
import said
import soundfile
import tiny
import tiny_store
import torch
from command_line import npda

from npda.datastore.source import BuildOptions
from npda.datastore.store import Datastore
from npda.translator import Translator


@pytest.fixture
def clips(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.wav" for number in range(4)]
    for number, path in enumerate(paths):
        soundfile.write(path, said.speech(12_000 + 5_000 * number), 16_000)
    return paths


def test_the_same_command_writes_the_same_bytes(clips: list[Path], tmp_path: Path):
    """In two processes, with a store that steers, every score to its last digit."""
    model = tiny_store.backbone()
    model.save_pretrained(tmp_path / "model")
    Datastore.build(model, tiny_store.pairs(40), tmp_path / "store", options=BuildOptions(progress=False))
    command = ("translate", *clips, "--model", tmp_path / "model", "--store", tmp_path / "store", "--unguarded")
    once, again = (npda(*command, "-f", "json", "--max-length", 12, "--n-best", 3) for _ in range(2))
    assert once.returncode == 0, once.stderr
    assert once.stdout == again.stdout
    assert any(json.loads(line)["text"] for line in once.stdout.splitlines())


def test_what_is_translated_together_changes_rounding_and_no_words(clips: list[Path]):
    translator = Translator(tiny.backbone())
    together = list(translator.translate_all(clips))
    alone = [translator.translate(clip) for clip in clips]
    for one, other in zip(together, alone, strict=True):
        assert one is not None
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)


@torch.inference_mode()
def test_in_eight_bits_a_loud_neighbour_hardly_changes_what_is_heard(tmp_path: Path):
    """Rounding may move an input to the next of 255 levels; the scale of a row is its own."""
    tiny.backbone().save_pretrained(tmp_path)
    backbone = Translator.from_pretrained(tmp_path, int8=True).backbone
    quiet = torch.randn(1, 80, 80, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([80, 80])
    alone = backbone.hear(quiet, lengths[:1]).states
    together = backbone.hear(torch.cat([quiet, 100 * quiet]), lengths).states[:1]
    assert float((together - alone).norm() / alone.norm()) < 0.01
