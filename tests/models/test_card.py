"""The cards of model directories: what a training tells of the model it has written."""

import shutil
from pathlib import Path

import tiny_training
import yaml
from markdown_it import MarkdownIt

from npda.demo.model import SHIPPED
from npda.demo.model import write_card as write_shipped
from npda.models.card import About, names, write_model_card
from npda.models.digests import weights_digest
from npda.models.hub import load_weights
from npda.training.loop.run import Run

NASTY = "<b>| `x` [l](http://e.vil)\n# --- "


def read(directory: Path) -> tuple[dict, str]:
    """Front matter and body."""
    front, body = (directory / "README.md").read_text(encoding="utf-8").removeprefix("---\n").split("\n---\n", 1)
    return yaml.safe_load(front), body


def model(folder: Path) -> Path:
    """The weights of the shipped model without its card."""
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(SHIPPED / "model.safetensors")
    return folder


def test_the_shipped_model_has_the_card_that_npda_writes(tmp_path):
    shutil.copytree(SHIPPED, tmp_path / "m", ignore=shutil.ignore_patterns("README.md"))
    write_shipped(tmp_path / "m")
    assert (tmp_path / "m" / "README.md").read_bytes() == (SHIPPED / "README.md").read_bytes()


def test_a_card_counts_what_is_in_the_weights(tmp_path):
    count = sum(weight.numel() for weight in load_weights(SHIPPED).values())
    write_model_card(model(tmp_path / "m"), About("translator", ("a.tsv",)), {"seed": 3}, 7, {"nll": 1.25})
    _, body = read(tmp_path / "m")
    assert f"{count / 1e6:.1f} million parameters" in body
    assert "7 examples of `a.tsv`" in body
    assert "| dev: nll | 1.25 |" in body
    assert "| seed | `3` |" in body
    assert "not told" in body


def test_a_model_that_began_as_another_inherits_its_licence(tmp_path):
    base = model(tmp_path / "base")
    (base / "README.md").write_text("---\nlicense: MIT\n---\n# Somebody's model\n", encoding="utf-8")
    write_model_card(model(tmp_path / "m"), About("aligned", ("a.tsv",), base, ("de", "en"), "cc-by-4.0"))
    front, body = read(tmp_path / "m")
    assert (front["license"], front["license_name"]) == ("other", "MIT; cc-by-4.0")
    assert front["language"] == ["de", "en"]
    assert "| began as | `base` |" in body
    assert str(tmp_path) not in body


def test_names_from_elsewhere_are_no_markdown(tmp_path):
    write_model_card(model(tmp_path / "m"), About("translator", names([f"dir/{NASTY}"]), licence=NASTY), {"x": NASTY})
    front, body = read(tmp_path / "m")
    shown = MarkdownIt("commonmark").enable("table").render(body)
    assert front["license_name"] == " ".join(NASTY.split())
    assert "<b>" not in shown
    assert "<a " not in shown


def test_training_leaves_a_card_and_digests_do_not_know_it(tmp_path):
    with Run(tmp_path / "out", tiny_training.SETTINGS, {}, About("translator", ("train.tsv",))) as run:

        def write(directory: Path) -> None:
            for name in ("config.json", "model.safetensors"):
                (directory / name).write_bytes((SHIPPED / name).read_bytes())

        run.publish(write, 15, {"nll": 2.0})
        front, body = read(tmp_path / "out")
        assert front["library_name"] == "npda"
        assert "15 examples of `train.tsv`" in body
        assert weights_digest(load_weights(tmp_path / "out")) == weights_digest(load_weights(SHIPPED))
        (tmp_path / "out" / "README.md").write_text("My own words.", encoding="utf-8")
        run.publish(write, 15, {"nll": 2.0})
        assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "My own words."
