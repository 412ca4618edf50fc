"""E2E-JT-ST-MT: both losses in every update, each a mean over its own tokens; every parameter tuned."""

import json
from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest
import tiny
import tiny_store
import tiny_training
import torch

from npda.corpus.manifest import write_manifest
from npda.corpus.pairs import write_pairs
from npda.models import load_speech2text
from npda.models.text_encoder import TextEncoder
from npda.training.data.speech import SpeechData
from npda.training.data.text import TextData
from npda.training.loop.batching import BatchPlan
from npda.training.loop.mixing import MixedData, MixedPlan
from npda.training.loop.settings import TrainingSettings
from npda.training.objectives.translation import SpeechToText, TextToText
from npda.training.tasks.joint import joint, train_joint
from npda.translator import Translator

SETTINGS = TrainingSettings(
    batch_frames=450, batches_per_update=1, learning_rate=1e-3, warmup=2, schedule="constant", spec_augment="lb",
    ctc_weight=0.3, max_epochs=2, patience=None, average=1,
)  # fmt: skip


@pytest.mark.parametrize("texts", [7, 40, 400])
def test_every_update_has_both_kinds(texts):
    """An epoch is one of speech; text is used up evenly, over the ends of epochs."""
    speech_lengths, text_lengths = [80 + 3 * i for i in range(30)], [10 + i % 13 for i in range(texts)]
    plan = MixedPlan(BatchPlan(speech_lengths, 400, 2, seed=1), BatchPlan(text_lengths, 60, 2, seed=1))
    seen: Counter[int] = Counter()
    for number in range(4):
        updates = plan.epoch(number)
        assert updates == plan.epoch(number)
        heard = Counter(i for update in updates for batch in update for i in batch if i < 30)
        assert heard == Counter(range(30))
        for update in updates:
            kinds = [{index >= 30 for index in batch} for batch in update]
            assert all(len(kind) == 1 for kind in kinds)
            assert kinds[0] == {False}
            assert kinds[-1] == {True}
        read = chain.from_iterable(batch for update in updates for batch in update if batch[0] >= 30)
        seen.update(read)
    counts = [seen[30 + i] for i in range(texts)]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) > 0


def test_loss_and_gradient_are_the_sum_of_both(tmp_path):
    backbone = tiny_store.backbone()
    speech = SpeechData(tiny_training.utterances(tmp_path, 3), backbone)
    text = TextData(tiny_store.pairs(4), backbone)
    data = MixedData(speech, text)
    assert len(data.lengths) == 7
    objective = joint(SpeechToText(backbone, 0.1), TextToText(backbone, 0.1)).eval()
    assert objective.weights == {"loss": 1.0, "mt_loss": 1.0}
    total = torch.zeros(())
    for indices in ([0, 1, 2], [3, 4, 5, 6]):
        batch = data.batch(indices)
        counts, sums = objective.counts(batch), objective(batch)
        assert counts.keys() == sums.keys()
        total = total + sum(objective.weights.get(name, 0.0) * value / counts[name] for name, value in sums.items())
    total.backward()
    gradients = {name: p.grad.clone() for name, p in backbone.named_parameters() if p.grad is not None}

    backbone.zero_grad()
    expected = torch.zeros(())
    for memory, batch in (
        (backbone.hear(*[(b := speech.batch([0, 1, 2])).features, b.lengths]), speech.batch([0, 1, 2])),
        (backbone.read(*[(t := text.batch([0, 1, 2, 3])).source, t.source_lengths]), text.batch([0, 1, 2, 3])),
    ):
        logits = backbone.logits(backbone.states(memory, batch.tokens)).flatten(0, 1)
        expected = expected + torch.nn.functional.cross_entropy(
            logits, batch.labels.flatten(), ignore_index=backbone.target.pad, label_smoothing=0.1
        )
    expected.backward()
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, parameter in backbone.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-3, atol=1e-5)


@pytest.fixture
def files(tmp_path):
    write_manifest(tmp_path / "train.tsv", tiny_training.utterances(tmp_path / "audio", 12, 1))
    write_manifest(tmp_path / "dev.tsv", tiny_training.utterances(tmp_path / "audio", 4, 2))
    write_pairs(tmp_path / "text.tsv", tiny_store.pairs(30))
    return tmp_path


@pytest.mark.parametrize("start", ["random", "aligned"])
def test_every_parameter_moves(files, start):
    """From a base without a text encoder, and from one that has been aligned; then it translates speech."""
    torch.manual_seed(0)
    base = tiny.backbone(init_std=0.05)
    if start == "aligned":
        base.text_encoder = tiny_store.backbone().text_encoder
    base.save_pretrained(files / "base")
    args = [files / "train.tsv"], [files / "text.tsv"], [files / "dev.tsv"]
    train_joint(files / "base", *args, files / "joint", SETTINGS, layers=1, progress=False)

    trained = load_speech2text(files / "joint")
    torch.manual_seed(SETTINGS.seed)
    before: TextEncoder = base.text_encoder or base.add_text_encoder(1)
    assert trained.text_encoder is not None
    assert trained.text_encoder.size == before.size
    for old, new in ((base.model, trained.model), (before, trained.text_encoder)):
        moved = dict(new.named_parameters())
        assert [name for name, p in old.named_parameters() if torch.equal(p, moved[name])] == []

    log = [json.loads(line) for line in (files / "joint/train/log.jsonl").read_text().splitlines()]
    first, last = [entry for entry in log if entry["kind"] == "dev"]
    assert last["nll"] < first["nll"]
    updates = [entry for entry in log if entry["kind"] == "train"]
    assert updates[-1]["mt_loss"] < updates[0]["mt_loss"]
    assert {"loss", "ctc", "mt_loss", "mt_nll"} <= updates[0].keys()
    translation = Translator(trained).translate(next((files / "audio").glob("*.wav")))
    assert isinstance(translation.text, str)


def test_an_interrupted_run_goes_on_to_the_same_weights(files):
    tiny.backbone(init_std=0.05).save_pretrained(files / "base")
    args = [files / "train.tsv"], [files / "text.tsv"], [files / "dev.tsv"]
    for out, limits in (("whole", (7,)), ("halves", (2, 7))):
        for limit in limits:
            settings = replace(SETTINGS, max_epochs=None, max_updates=limit)
            train_joint(files / "base", *args, files / out, settings, layers=1, progress=False)
    for name in ("model.safetensors", "text_encoder/model.safetensors"):
        assert (files / "whole" / name).read_bytes() == (files / "halves" / name).read_bytes()
