"""Damaged model directories: each is refused in a sentence that names the file, and none makes a model of nonsense."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_seamless
import tiny_speech_encoder_decoder
import tiny_store
import tiny_text2text
import tiny_whisper
import torch
from safetensors.torch import load_file, save_file

from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.backbone import Backbone

MAKERS: dict[str, Callable[[], Backbone]] = {
    "speech2text": tiny_store.backbone,
    "text2text": tiny_text2text.model,
    "whisper": tiny_whisper.backbone,
    "seamless": tiny_seamless.backbone,
    "speech-encoder-decoder": tiny_speech_encoder_decoder.backbone,
}
Damage = Callable[[Path], None]


@pytest.fixture(scope="module", params=MAKERS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp(request.param) / "model"
    MAKERS[request.param]().save_pretrained(directory)
    load_backbone(directory)  # as it should be
    return directory


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def rewritten(change: Callable[[dict[str, torch.Tensor]], None]) -> Damage:
    def damage(directory: Path) -> None:
        path = directory / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path, metadata={"format": "pt"})

    return damage


def largest(weights: dict[str, torch.Tensor]) -> str:
    return max(weights, key=lambda name: (weights[name].ndim == 2, weights[name].numel()))


def without_one(weights: dict[str, torch.Tensor]) -> None:
    del weights[largest(weights)]


def with_another(weights: dict[str, torch.Tensor]) -> None:
    weights["decoder.surprise"] = torch.zeros(3)


def misshaped(weights: dict[str, torch.Tensor]) -> None:
    name = largest(weights)
    weights[name] = weights[name][:-1].clone()


def no_number(weights: dict[str, torch.Tensor]) -> None:
    weights[largest(weights)].view(-1)[0] = float("nan")


def bytes_changed(change: Callable[[bytes], bytes], name: str = "model.safetensors") -> Damage:
    def damage(directory: Path) -> None:
        content = (directory / name).read_bytes()
        (directory / name).write_bytes(change(content))

    return damage


def configured(**changes: object) -> Damage:
    def damage(directory: Path) -> None:
        path = directory / "config.json"
        config = json.loads(path.read_text())
        for name in ("d_model", "dim", "hidden_size"):
            if name in config:
                config[name] = changes["width"]
        if "decoder" in config:
            config["decoder"]["d_model"] = changes["width"]
        path.write_text(json.dumps(config))

    return damage


DAMAGES: dict[str, Damage] = {
    "a tensor is missing": rewritten(without_one),
    "a tensor is not of the model": rewritten(with_another),
    "a tensor has another shape": rewritten(misshaped),
    "NaN": rewritten(no_number),
    "cut off": bytes_changed(lambda content: content[: len(content) // 2]),
    "empty": bytes_changed(lambda content: b""),
    "a header of 2^63 bytes": bytes_changed(lambda content: b"\xff" * 7 + b"\x7f" + content[8:]),
    "no header": bytes_changed(lambda content: b"\0" * 64 + content[64:]),
    "nested JSON": bytes_changed(lambda content: b"[" * 100_000, "config.json"),
    "no JSON": bytes_changed(lambda content: content[:-3], "config.json"),
    "a word for a number": configured(width="x"),
    "another width": configured(width=48),
    "an absurd width": configured(width=10**15),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_model_is_refused(name: str, model: Path):
    DAMAGES[name](model)
    with pytest.raises(InputError, match=r"\S") as refused:
        load_backbone(model)
    assert str(model) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_code_of_a_model_directory_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """transformers asks on the terminal whether to run what ``auto_map`` names; here nobody is asked."""
    directory = tmp_path / "model"
    tiny_speech_encoder_decoder.backbone().save_pretrained(directory)
    for file in ("config.json", "tokenizer_config.json", "preprocessor_config.json"):
        if (path := directory / file).is_file():
            config = json.loads(path.read_text())
            named = {f"Auto{kind}": "planted.Planted" for kind in ("Config", "Model", "FeatureExtractor")}
            config["auto_map"] = {**named, "AutoTokenizer": ["planted.Planted", "planted.Planted"]}
            path.write_text(json.dumps(config))
    (directory / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Planted: ...\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with contextlib.suppress(InputError):
        load_backbone(directory)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dropout", -1),
        ("decoder_start_token_id", "x"),
        ("eos_token_id", 10**6),
        ("encoder_layers", 1.5),
        ("bos_token_id", True),
    ],
)
def test_settings_that_no_network_can_have(tmp_path: Path, name: str, value: object):
    tiny_store.backbone().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {name: value}))
    with pytest.raises(InputError, match=name):
        load_backbone(tmp_path)


def test_an_empty_vocabulary(tmp_path: Path):
    tiny_store.backbone().save_pretrained(tmp_path)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        load_backbone(tmp_path)
