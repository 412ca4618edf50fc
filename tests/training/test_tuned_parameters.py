"""Every choice of what is tuned: exactly those parameters move, the loss falls, and the model translates."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors
import tiny
import tiny_store
import tiny_training
import torch
from torch import nn

from npda.corpus.manifest import read_manifest, write_manifest
from npda.io.errors import InputError
from npda.models import load_speech2text
from npda.models.layers.transformer import Attention
from npda.models.speech2text import Speech2Text
from npda.training.loop.settings import TrainingSettings
from npda.training.tasks.speech import SpeechModel, train_speech
from npda.translator import Translator

SETTINGS = TrainingSettings(
    batch_frames=600, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment=None,
    weight_decay=0.1, ctc_weight=0.3, max_epochs=3, patience=None, average=1,
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A model with a text encoder, which speech never passes through."""
    directory = tmp_path_factory.mktemp("base")
    model = tiny.backbone(init_std=0.05)
    model.text_encoder = tiny_store.backbone().text_encoder
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("speech")
    write_manifest(directory / "train.tsv", tiny_training.utterances(directory, 12, 0))
    return directory / "train.tsv"


def of(root: str, *modules: nn.Module) -> set[str]:
    return {f"{root}{name}" for module in modules for name, _ in module.named_parameters()}


def claimed(model: Speech2Text, tunes: str) -> set[str]:
    """Told by the kinds of modules, not by the names of parameters."""
    whole, decoder = model.model, model.model.model.decoder
    if tunes == "all":
        return of("model.", whole)
    if tunes == "decoder":  # the output layer is the embedding
        return of("model.model.decoder.", decoder)
    if tunes == "adapters":
        assert model.adapters is not None
        return of("adapters.", model.adapters)
    names: set[str] = set()
    for name, module in decoder.named_modules():
        if isinstance(module, nn.LayerNorm | Attention):
            names |= of(f"model.model.decoder.{name}.", module)
    return names


@pytest.mark.parametrize("tunes", ["all", "decoder", "lna-d", "adapters"])
def test_exactly_what_is_tuned_moves(tunes, base, manifest, tmp_path):
    model = SpeechModel(start=base, tunes=tunes, adapter_width=8)
    train_speech([manifest], [manifest], tmp_path, model, SETTINGS, progress=False)

    before, after = load_speech2text(base), load_speech2text(tmp_path)
    torch.manual_seed(SETTINGS.seed)
    if tunes == "adapters":
        before.add_adapters(["any"], 8)  # as they were before the first update
    old, new = before.state_dict(), after.state_dict()
    assert old.keys() == new.keys()
    moved = {name for name, _ in after.named_parameters() if not torch.equal(old[name], new[name])}
    assert moved == claimed(after, tunes)
    if tunes == "adapters":
        assert (base / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()

    state = max((tmp_path / "train" / "checkpoints").glob("state-*"))
    with safetensors.safe_open(state / "parameters.safetensors", "pt") as stored:
        kept = {name.removeprefix("backbone.") for name in stored.keys() if not name.startswith("ctc.")}  # noqa: SIM118
        assert kept == moved
        assert any(name.startswith("ctc.") for name in stored.keys()) == (tunes in ("all", "adapters"))  # noqa: SIM118

    log = [json.loads(line) for line in (tmp_path / "train" / "log.jsonl").read_text().splitlines()]
    losses = [entry["nll"] for entry in log if entry["kind"] == "dev"]
    assert losses[-1] < losses[0]
    translation = Translator(after).translate(read_manifest(manifest)[0].audio)
    assert translation.duration > 0
    assert translation.score < 0


def test_a_frozen_encoder_is_taken_over(manifest, tmp_path):
    """--encoder with tunes="decoder": the recogniser's encoder bit for bit under a new decoder."""
    settings = replace(SETTINGS, max_epochs=None, max_updates=2)
    model = SpeechModel("asr", "mini", source_size=50, target_size=50)
    train_speech([manifest], [manifest], tmp_path / "asr", model, settings, progress=False)
    model = replace(model, task="st", encoder=tmp_path / "asr", tunes="decoder")
    train_speech([manifest], [manifest], tmp_path / "st", model, settings, progress=False)
    theirs, ours = (load_speech2text(tmp_path / name).model.model.encoder.state_dict() for name in ("asr", "st"))
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tunes": "bias"}, "tunes must be one of all, decoder, lna-d, adapters, not 'bias'"),
        ({"tunes": "lna-d"}, "say which one to start from"),
        ({"tunes": "lna-d", "encoder": Path("asr")}, "say which one to start from"),
        ({"tunes": "decoder"}, "say which one to start from"),
        ({"adapter_width": 0}, "adapter_width must be above 0"),
        ({"feature_gates": True}, "give l0_weight"),
    ],
)
def test_choices_are_checked_where_they_are_made(change, complaint):
    with pytest.raises(InputError, match=complaint):
        SpeechModel(**change)


def test_a_run_remembers_what_it_tunes(base, manifest, tmp_path):
    settings = replace(SETTINGS, max_epochs=None, max_updates=1)
    train_speech([manifest], [manifest], tmp_path, SpeechModel(start=base), settings, progress=False)
    described = json.loads((tmp_path / "train" / "settings.json").read_text())["description"]
    assert "tunes" not in described  # runs from before there was a choice are such runs
    with pytest.raises(InputError, match='tunes was null, now "lna-d"'):
        train_speech([manifest], [manifest], tmp_path, SpeechModel(start=base, tunes="lna-d"), settings, progress=False)
