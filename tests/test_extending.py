"""The Python of docs/extending.md runs, in its order, on what the demonstration leaves."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npda import Datastore, KnnFusion, KnnOptions, Translator
from npda.decoding.knn.combiners import Retrieved
from npda.models.families import GROUP

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
MODEL = ROOT / "src" / "npda" / "pretrained" / "mini-en-de"
CLIP = ROOT / "tests" / "fixtures" / "version-0.1.0" / "clips" / "parliament-test-00001.flac"

_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(language, name, body) for language, name, body in _BLOCK.findall(PAGE)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page leaves behind, with what each block has printed under "printed"."""
    folder = tmp_path_factory.mktemp("extending")
    (folder / "runs" / "demo" / "data").mkdir(parents=True)
    shutil.copytree(MODEL, folder / "runs" / "demo" / "model")
    shutil.copy(CLIP, folder / "runs" / "demo" / "data" / "speech.wav")  # its content says that it is FLAC
    printed: list[str] = []
    left: dict[str, Any] = {"__name__": "page", "print": lambda *things: printed.append(" ".join(map(str, things)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for language, name, body in BLOCKS:
            if language == "python" and not name:
                run = compile(body, "docs/extending.md", "exec")
                exec(run, left)
    return {**left, "printed": printed, "folder": folder}


@pytest.fixture(autouse=True)
def there(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(page["folder"])  # the paths of the page begin there


def test_the_page_runs(page: dict[str, Any]):
    assert len(page["printed"]) == sum(body.count("print(") for language, _, body in BLOCKS if language == "python")
    assert all(page["printed"])


def test_the_combiner_weighs_by_doubt(page: dict[str, Any]):
    import torch

    log_probs = torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log()
    distances, values = torch.tensor([[1.0, 2.0]] * 2), torch.tensor([[0, 1]] * 2)
    weights, lambda_ = page["WhereInDoubt"]().combine(
        Retrieved(torch.zeros(2, 3), log_probs, distances, values, np.zeros((2, 2), int))
    )
    assert lambda_.flatten().tolist() == pytest.approx([0.1, 0.5])
    assert weights.sum(dim=1).tolist() == pytest.approx([1, 1])


def test_the_retriever_finds_what_the_store_finds(page: dict[str, Any]):
    translator, store, retriever = page["translator"], page["store"], page["InMemory"](page["store"])
    options = KnnOptions(k=8, lambda_=0.7, temperature=10)
    ours, theirs = (translator.translate(CLIP, fusions=[KnnFusion(each, options)]) for each in (store, retriever))
    assert ours.text == theirs.text != translator.translate(CLIP).text
    assert ours.score == pytest.approx(theirs.score, abs=1e-4)


def test_the_fusion_never_writes_its_words(page: dict[str, Any]):
    translator = page["translator"]
    first = translator.translate(CLIP).text.split()[0]
    never = page["Never"](translator, first)
    assert first not in translator.translate(CLIP, fusions=[never]).text.split()


def test_the_arrays_are_what_building_computes(page: dict[str, Any]):
    ids = np.arange(page["arrays"].entries.limit)
    (built,) = (Datastore.build(page["translator"], page["pairs"][:1], page["folder"] / "built"),)
    np.testing.assert_array_equal(page["arrays"].entries.values(), built.entries.values())
    np.testing.assert_allclose(page["arrays"].entries.keys(ids), built.entries.keys(ids), atol=2e-2)


def test_the_family_is_opened_once_it_is_installed(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    """As pip would: the file, and metadata with the entry points of the page."""
    folder: Path = page["folder"]
    ((name, code),) = [(name, body) for _, name, body in BLOCKS if name]
    (toml,) = [body for language, _, body in BLOCKS if language == "toml"]
    points = tomllib.loads(toml)["project"]["entry-points"][GROUP]
    metadata = folder / "site" / "loud_speech-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "site" / name).write_text(code)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-speech\nVersion: 1.0\n")
    lines = [f"{key} = {value}\n" for key, value in points.items()]
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(lines)}")
    monkeypatch.syspath_prepend(folder / "site")

    model = shutil.copytree(MODEL, folder / "loud")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": next(iter(points))}))
    opened = Translator.from_pretrained(model)
    assert type(opened.backbone).__name__ == "LoudSpeech"
    wave = np.sin(np.arange(16_000) / 10).astype(np.float32)
    plain = page["translator"].backbone.features(wave * 0.5 / np.abs(wave * 0.5).max())
    np.testing.assert_array_equal(opened.backbone.features(wave * 0.5), plain)
    assert opened.translate(CLIP, datastore=page["store"]).text
