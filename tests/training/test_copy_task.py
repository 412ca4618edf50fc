"""The copy task: a Whisper that learns to read by writing down what it reads."""

import json

import numpy as np
import pytest
import tiny
import tiny_training
import tiny_whisper
import torch

from npda.corpus.manifest import write_manifest
from npda.io.errors import InputError
from npda.models import load_backbone
from npda.models.whisper import Whisper
from npda.training.data.copy_task import copy_data
from npda.training.loop.settings import TrainingSettings
from npda.training.objectives.alignment import Align
from npda.training.objectives.translation import token_losses
from npda.training.tasks.align import AlignOptions, train_alignment

SETTINGS = TrainingSettings(
    batch_frames=200, batches_per_update=1, learning_rate=3e-3, warmup=2, schedule="constant", spec_augment=None,
    label_smoothing=0.0, max_updates=8, patience=None, average=1, log_every=1, evaluate_every=4,
)  # fmt: skip


@pytest.fixture
def files(tmp_path):
    tiny_whisper.backbone().save_pretrained(tmp_path / "whisper")
    write_manifest(tmp_path / "train.tsv", tiny_training.utterances(tmp_path / "audio", 8, 1))
    write_manifest(tmp_path / "dev.tsv", tiny_training.utterances(tmp_path / "audio", 3, 2))
    lines = [f"Der Saal {i} ist offen." for i in range(20)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def trained(files, out, settings=SETTINGS, **options):
    given = AlignOptions(layers=1, text=(files / "text.txt",), **options)
    arguments = [files / "train.tsv"], [files / "dev.tsv"], files / out, settings, given, "de"
    return train_alignment(files / "whisper", *arguments, progress=False)


def test_both_losses_fall_and_only_the_text_encoder_moves(files):
    trained(files, "aligned")
    before, after = load_backbone(files / "whisper", "de"), load_backbone(files / "aligned")
    assert isinstance(before, Whisper)
    assert isinstance(after, Whisper)
    assert after.source_language == "de"
    weights = after.model.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in before.model.state_dict().items())
    log = [json.loads(line) for line in (files / "aligned/train/log.jsonl").read_text().splitlines()]
    updates = [entry for entry in log if entry["kind"] == "train"]
    assert updates[-1]["copy_nll"] < updates[0]["copy_nll"]
    first, last = [entry for entry in log if entry["kind"] == "dev"]
    assert last["nll"] < first["nll"]
    assert {"mse", "cosine"} <= last.keys()


def test_an_interrupted_run_goes_on_to_the_same_weights(files):
    from dataclasses import replace

    trained(files, "whole")
    for limit in (3, 8):
        trained(files, "halves", replace(SETTINGS, max_updates=limit))
    name = "text_encoder/model.safetensors"
    assert (files / "whole" / name).read_bytes() == (files / "halves" / name).read_bytes()


def test_the_target_of_a_sentence_is_the_sentence_as_a_transcript():
    model = tiny_whisper.backbone()
    batch = copy_data([], ["Das Wort hat die Fraktion."], model).batch([0])
    text = model.target.encode("Das Wort hat die Fraktion.")
    assert batch.source[0].tolist() == text
    assert batch.tokens[0].tolist() == [*model.prompt("de"), *text]
    assert batch.labels[0].tolist()[-len(text) - 1 :] == [*text, model.target.eos]
    assert model.prompt("de") != model.prompt("en")


def test_a_model_that_cannot_transcribe_refuses_the_text():
    with pytest.raises(InputError, match="cannot write down"):
        copy_data([], ["a sentence"], tiny.backbone())


def test_soft_max_over_the_tokens_that_occur():
    """Equal to NumPy's over these columns, and so is its gradient's sign: tokens that never occur play no part."""
    model = tiny_whisper.backbone()
    pad = model.target.pad
    only = torch.tensor([3, 7, 20, 41, 90])
    labels = torch.tensor([[7, 90, pad], [pad, 3, 20]])
    states = torch.randn(2, 3, model.dim)
    found = token_losses(model, states, labels, 0.0, only)["nll"].item()
    weight = model.model.proj_out.weight.detach().numpy()[only.numpy()]
    expected = 0.0
    for state, label in ((states[0, 0], 1), (states[0, 1], 4), (states[1, 1], 0), (states[1, 2], 2)):
        scores = weight.astype(np.float64) @ state.numpy()
        expected += np.log(np.exp(scores).sum()) - scores[label]
    assert found == pytest.approx(expected, rel=1e-4)
    assert Align(model, model.add_text_encoder(1), "full", 0.0, mse_weight=0.25).weights == {"loss": 1.0, "mse": 0.25}
