"""Adaptive feature selection: HardConcrete gates by their formulas, dropped frames by hand, two stages of training."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
import tiny_training
import torch

from npda.corpus.manifest import read_manifest, write_manifest
from npda.io.errors import InputError
from npda.models import load_speech2text
from npda.models.backbone import Memory
from npda.models.layers.feature_selection import FeatureSelection, compact, hard_concrete, open_probability
from npda.training.data.speech import SpeechData
from npda.training.loop.settings import TrainingSettings
from npda.training.objectives.feature_selection import SelectiveSpeechToText
from npda.training.tasks.speech import SpeechModel, train_speech
from npda.translator import Translator

SETTINGS = TrainingSettings(
    batch_frames=600, batches_per_update=1, learning_rate=1e-2, warmup=2, schedule="constant", spec_augment=None,
    ctc_weight=0.3, max_epochs=8, patience=None, average=1, log_every=1,
)  # fmt: skip


def gated(features: bool = False):
    """A model whose gates close some of the frames."""
    model = tiny.backbone()
    model.selection = FeatureSelection(model.dim, features)
    torch.manual_seed(4)
    torch.nn.init.normal_(model.selection.temporal.weight, std=0.5)
    torch.nn.init.constant_(model.selection.temporal.bias, -1.5)
    if model.selection.features is not None:
        torch.nn.init.normal_(model.selection.features, std=3.0)
    return model.eval()


def test_gates_without_chance_are_those_of_the_formula():
    log_alpha = np.linspace(-6, 6, 25)
    expected = np.clip(1.2 / (1 + np.exp(-log_alpha)) - 0.1, 0, 1)
    np.testing.assert_allclose(hard_concrete(torch.tensor(log_alpha), noisy=False), expected, atol=1e-12)
    assert (expected == 0).sum() > 5
    assert (expected == 1).sum() > 5


@pytest.mark.parametrize("log_alpha", [-4.0, -1.0, 0.0, 2.0])
def test_gates_are_open_as_often_as_the_penalty_says(log_alpha):
    torch.manual_seed(0)
    given = torch.full((200_000,), log_alpha, dtype=torch.float64)
    gates = hard_concrete(given, noisy=True)
    assert float((gates > 0).double().mean()) == pytest.approx(float(open_probability(given[0])), abs=4e-3)
    # By symmetry a gate of −log α is closed as often as one of log α is fully open.
    assert float((gates == 1).double().mean()) == pytest.approx(1 - float(open_probability(-given[0])), abs=4e-3)


@pytest.mark.parametrize("log_alpha", [-5.0, -2.4, -1.0, 0.0, 2.0])
def test_expected_l0_is_the_share_of_all_draws_that_leave_a_gate_open(log_alpha):
    """Brute force: the formula of Louizos et al. for evenly spaced draws in (0, 1) instead of random ones."""
    draws = (np.arange(1_000_000) + 0.5) / 1_000_000

    def share_open(alpha: float) -> float:
        stretched = 1.2 / (1 + np.exp(-(np.log(draws / (1 - draws)) + alpha) / (2 / 3))) - 0.1
        return float(np.mean(stretched > 0))

    given = torch.tensor(log_alpha, dtype=torch.float64, requires_grad=True)
    expected = open_probability(given)
    assert float(expected.detach()) == pytest.approx(share_open(log_alpha), abs=2e-6)
    (gradient,) = torch.autograd.grad(expected, given)
    slope = (share_open(log_alpha + 0.05) - share_open(log_alpha - 0.05)) / 0.1
    assert float(gradient) == pytest.approx(slope, abs=2e-4)


def test_the_penalty_alone_closes_every_gate():
    """The gradient of l0 with respect to a frame's log α, by hand, over a padded batch."""
    selection = FeatureSelection(3)
    torch.nn.init.constant_(selection.temporal.bias, 0.5)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    selected = selection(Memory(torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0)), mask))
    (gradient,) = torch.autograd.grad(selected.expected_frames, selection.temporal.bias)
    opened = 1 / (1 + np.exp(-(0.5 - 2 / 3 * np.log(0.1 / 1.1))))
    assert float(selected.expected_frames.detach()) == pytest.approx(4 * opened, rel=1e-6)
    assert float(gradient) == pytest.approx(4 * opened * (1 - opened), rel=1e-5)


def test_what_is_kept_moves_together():
    states = torch.arange(10.0).view(2, 5, 1)
    mask = torch.tensor([[False, True, False, True, True], [True, False, False, False, False]])
    found = compact(Memory(states, mask))
    assert found.states[0, :, 0].tolist() == [1, 3, 4]
    assert found.mask.tolist() == [[True, True, True], [True, False, False]]
    assert found.states[1, 0, 0] == 5


@pytest.mark.parametrize("features", [False, True])
@torch.inference_mode()
def test_closed_frames_do_not_reach_the_decoder(features):
    model = gated(features)
    assert model.selection is not None
    given, lengths = tiny.speech([150, 61, 97])
    encoded, heard = model.encode(given, lengths), model.hear(given, lengths)
    weight, bias = (p.numpy()[0] for p in (model.selection.temporal.weight, model.selection.temporal.bias))
    scale = np.ones(model.dim)
    if model.selection.features is not None:
        scale = np.clip(1.2 / (1 + np.exp(-model.selection.features.numpy())) - 0.1, 0, 1)
        assert 0 < (scale == 0).sum() < model.dim
    shares = []
    for row, length in enumerate(model.encoded_lengths(lengths).tolist()):
        assert length == encoded.mask[row].sum()
        frames = encoded.states[row, :length].numpy()
        gates = np.clip(1.2 / (1 + np.exp(-(frames @ weight + bias))) - 0.1, 0, 1)
        expected = (frames * gates[:, None] * scale)[gates > 0]
        assert int(heard.mask[row].sum()) == len(expected)
        assert heard.mask[row, : len(expected)].all()
        np.testing.assert_allclose(heard.states[row, : len(expected)], expected, atol=1e-5)
        shares.append(len(expected) / length)
    assert min(shares) > 0.05
    assert max(shares) < 0.95
    assert heard.states.shape[1] == heard.mask.sum(dim=1).max() < encoded.states.shape[1]

    alone = model.hear(given[1:2, :61], lengths[1:2])
    tokens = torch.tensor([[2, 14, 15, 16]])
    together = model.states(heard, tokens.expand(3, -1))[1]
    torch.testing.assert_close(together, model.states(alone, tokens)[0], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_an_utterance_keeps_its_likeliest_frame():
    model = gated()
    assert model.selection is not None
    torch.nn.init.constant_(model.selection.temporal.bias, -50.0)
    heard = model.hear(*tiny.speech([150, 61]))
    assert heard.mask.tolist() == [[True], [True]]
    assert model.states(heard, torch.tensor([[2, 14]] * 2)).isfinite().all()


def test_fresh_gates_let_half_of_every_frame_through():
    model = tiny.backbone()
    model.selection = FeatureSelection(model.dim, features=True).eval()
    given, lengths = tiny.speech([80, 50])
    with torch.inference_mode():
        heard = model.hear(given, lengths)
        encoded = model.encode(given, lengths)
    assert torch.equal(heard.mask, encoded.mask)
    assert torch.allclose(heard.states[0], encoded.states[0] * 0.5**2)


def test_terms_of_a_batch(tmp_path):
    """l0 and kept are shares of the encoder's frames; with a weight, the best checkpoint pays for what is open."""
    model = gated(features=True)
    assert model.selection is not None
    assert model.selection.features is not None
    data = SpeechData(tiny_training.utterances(tmp_path, 4), model)
    objective = SelectiveSpeechToText(model, l0_weight=0.5).eval()
    batch = data.batch(range(4))
    with torch.inference_mode():
        sums, counts = objective(batch), objective.counts(batch)
        memory = model.encode(batch.features, batch.lengths)
        kept = int(model.hear(batch.features, batch.lengths).mask.sum())
        logits = model.selection.temporal(memory.states)[..., 0][memory.mask].double().numpy()
    assert sums.keys() == counts.keys() == set(objective.terms)
    assert counts["l0"] == counts["kept"] == len(logits)
    opens = 1 / (1 + np.exp(-(logits - 2 / 3 * np.log(0.1 / 1.1))))
    assert float(sums["l0"]) == pytest.approx(opens.sum(), rel=1e-4)
    assert int(sums["kept"]) == kept
    assert int(sums["kept_features"]) == int((model.selection.features > -np.log(11)).sum())
    assert objective.weights == {"loss": 1.0, "l0": 0.5, "l0_features": 0.5}
    assert objective.selection({"nll": 2.0, "l0": 0.4, "l0_features": 0.2}) == pytest.approx(2.3)
    frozen = SelectiveSpeechToText(model)
    assert frozen.weights == {"loss": 1.0}
    assert frozen.selection({"nll": 2.0, "l0": 0.4}) == 2.0
    assert not frozen.train().backbone.selection.training  # pyright: ignore[reportAttributeAccessIssue]
    assert objective.train().backbone.selection.training  # pyright: ignore[reportAttributeAccessIssue]


def entries(out, kind):
    log = [json.loads(line) for line in (out / "train" / "log.jsonl").read_text().splitlines()]
    return [entry for entry in log if entry["kind"] == kind]


@pytest.mark.parametrize("features", [False, True])
def test_two_stages(features, tmp_path):
    """Gates close while recognition is trained on; a translator takes encoder and gates over, and leaves them."""
    made = tiny_training.utterances(tmp_path / "speech", 10, 0)
    write_manifest(tmp_path / "train.tsv", made)
    manifests = [tmp_path / "train.tsv"]
    asr = SpeechModel("asr", "mini", source_size=50, target_size=50)
    short = replace(SETTINGS, max_epochs=1, learning_rate=1e-3)
    train_speech(manifests, manifests, tmp_path / "asr", asr, short, progress=False)

    selecting = SpeechModel("asr", start=tmp_path / "asr", l0_weight=2.0, feature_gates=features)
    summary = train_speech(manifests, manifests, tmp_path / "afs", selecting, SETTINGS, progress=False)
    before, after = load_speech2text(tmp_path / "asr"), load_speech2text(tmp_path / "afs")
    assert before.selection is None
    assert after.selection is not None
    assert (after.selection.features is not None) == features
    dev, train = entries(tmp_path / "afs", "dev"), entries(tmp_path / "afs", "train")
    assert summary.dev["kept"] < dev[0]["kept"]
    assert 0 < summary.dev["kept"] < 0.9
    assert train[-1]["l0"] < train[0]["l0"]
    assert train[-1]["kept"] < train[0]["kept"]
    assert ("kept_features" in dev[0]) == features
    fresh = FeatureSelection(after.dim, features).state_dict()
    old, new = {**before.state_dict(), **{f"selection.{n}": t for n, t in fresh.items()}}, after.state_dict()
    moved = {name for name, _ in after.named_parameters() if not torch.equal(old[name], new[name])}
    assert moved == {name for name, _ in after.named_parameters()}

    translating = SpeechModel("st", "mini", 50, 50, encoder=tmp_path / "afs", tunes="decoder")
    st = train_speech(manifests, manifests, tmp_path / "st", translating, replace(short, max_epochs=3), progress=False)
    translator = load_speech2text(tmp_path / "st")
    old, new = after.state_dict(), translator.state_dict()
    frozen = [name for name in new if name.startswith(("selection.", "model.model.encoder."))]
    assert all(torch.equal(old[name], new[name]) for name in frozen)
    losses = [entry["nll"] for entry in entries(tmp_path / "st", "dev")]
    assert losses[-1] < losses[0]
    assert {entry["kept"] for entry in entries(tmp_path / "st", "dev")} == {st.dev["kept"]}
    assert st.dev["kept"] == pytest.approx(summary.dev["kept"])
    assert Translator(translator).translate(read_manifest(manifests[0])[0].audio).score < 0


def test_damaged_gates_get_one_sentence(tmp_path):
    gated().save_pretrained(tmp_path)
    (tmp_path / "feature_selection" / "config.json").write_text('{"dim": 7, "features": false}')
    with pytest.raises(InputError, match="weights is of another size") as error:
        load_speech2text(tmp_path)
    assert "\n" not in str(error.value)
    (tmp_path / "feature_selection" / "config.json").write_text('{"dim": 32, "features": false}')
    (tmp_path / "feature_selection" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match="cannot be read"):
        load_speech2text(tmp_path)
