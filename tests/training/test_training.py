"""The loop, its objectives and its settings against independent computations."""

import json
import math
import os
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tiny
import tiny_training
import torch
import torch.nn.functional as F
from transformers import Speech2TextForConditionalGeneration

from npda.io.errors import InputError
from npda.models import load_speech2text
from npda.models.backbone import Memory
from npda.training.data.speech import SpeechBatch, SpeechData
from npda.training.loop.batching import BatchPlan
from npda.training.loop.gradients import Gradients
from npda.training.loop.log import TrainingLog
from npda.training.loop.processes import autocast, running
from npda.training.loop.run import Run
from npda.training.loop.schedule import learning_rate
from npda.training.loop.settings import MINI, TrainingSettings
from npda.training.loop.train import train
from npda.training.objectives.translation import SpeechToText, ctc_loss, smoothed_cross_entropy
from npda.training.tasks.speech import SpeechModel, train_speech

SCRIPT = Path(tiny_training.__file__)
PLAIN = replace(tiny_training.SETTINGS, ctc_weight=0.0, max_epochs=None, max_updates=1)


def log(out: Path, kind: str) -> list[dict]:
    return [entry for entry in TrainingLog(out / "train" / "log.jsonl").read() if entry["kind"] == kind]


def weights(out: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(out / "model.safetensors")


def test_schedules():
    paper = TrainingSettings()
    rates = [learning_rate(paper, update) for update in (1, 5_000, 10_000, 40_000)]
    assert rates == pytest.approx([2e-7, 1e-3, 2e-3, 1e-3])
    rates = [learning_rate(MINI, update, total=1150) for update in (75, 150, 400, 650, 1150)]
    assert rates == pytest.approx([1e-3, 2e-3, 1e-3 * (1 + math.sqrt(0.5)), 1e-3, 0])
    constant = replace(paper, schedule="constant", warmup=0)
    assert learning_rate(constant, 1) == learning_rate(constant, 10**6) == 2e-3


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"schedule": "cosine"}, "give max_epochs or max_updates"),
        ({"schedule": "linear"}, "must be one of inverse-sqrt, cosine, constant, not 'linear'"),
        ({"patience": None}, "would never end"),
        ({"batch_frames": 0}, "batch_frames must be above 0"),
        ({"label_smoothing": 1.0}, "label_smoothing must lie in"),
        ({"spec_augment": "xx"}, "must be one of lb, ld, sm, ss"),
        ({"warmup": -1}, "warmup must not be negative"),
    ],
)
def test_settings_are_checked_where_they_are_made(change, complaint):
    with pytest.raises(InputError, match=complaint):
        replace(TrainingSettings(), **change)


def test_smoothed_cross_entropy_spreads_mass_over_the_whole_vocabulary():
    random = np.random.default_rng(0)
    logits, labels, epsilon = random.normal(size=(5, 7)), random.integers(0, 7, 5), 0.1
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = nll = 0.0
    for row, label in zip(probabilities, labels, strict=True):
        wanted = np.full(7, epsilon / 7)
        wanted[label] += 1 - epsilon
        loss -= (wanted * np.log(row)).sum()
        nll -= np.log(row[label])
    ours = smoothed_cross_entropy(torch.tensor(logits), torch.tensor(labels), epsilon)
    assert [float(value) for value in ours] == pytest.approx([loss, nll], rel=1e-5)


def test_ctc_sums_over_all_alignments():
    """Two utterances of 4 and 3 states; the second has no room for its transcript, whose repeated piece needs 4."""
    torch.manual_seed(0)
    head, states = torch.nn.Linear(5, 3), torch.randn(2, 4, 5)
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    nothing = torch.empty(0)
    source, lengths = torch.tensor([[2, 0, 1], [2, 2, 0]]), torch.tensor([2, 3])
    batch = SpeechBatch(nothing, nothing, nothing, nothing, source, lengths)
    with torch.no_grad():
        ours = float(ctc_loss(head, Memory(states, mask), batch, blank=1))
        probabilities = head(states[0]).softmax(dim=-1).numpy()

    def read(path):
        return [piece for i, piece in enumerate(path) if piece != 1 and (i == 0 or piece != path[i - 1])]

    alignments = [path for path in product(range(3), repeat=4) if read(path) == [2, 0]]
    likelihood = sum(np.prod([probabilities[t, piece] for t, piece in enumerate(path)]) for path in alignments)
    assert ours == pytest.approx(-np.log(likelihood), rel=1e-5)


def test_gradient_of_an_update_is_that_of_the_mean_over_all_its_tokens(tmp_path):
    """Micro-batches with different numbers of tokens, against transformers' model over single utterances."""
    settings = replace(PLAIN, batches_per_update=100, clip=None)
    tiny_training.run(tmp_path / "data", tmp_path / "out", settings, dropout=0.0)
    (entry,) = log(tmp_path / "out", "train")

    backbone = tiny.backbone(dropout=0.0, init_std=0.02)
    theirs = tiny.theirs(backbone)
    data, _ = tiny_training.data(tmp_path / "data", backbone)
    loss, tokens = torch.zeros(()), 0
    for index in range(len(data)):
        batch = data.batch([index])
        logits = theirs(input_features=batch.features, decoder_input_ids=batch.tokens).logits
        loss = loss + F.cross_entropy(logits[0], batch.labels[0], label_smoothing=0.1, reduction="sum")
        tokens += batch.labels.numel()
    (loss / tokens).backward()
    norm = torch.nn.utils.get_total_norm(p.grad for p in theirs.parameters() if p.grad is not None)
    assert entry["loss"] == pytest.approx(loss.item() / tokens, rel=1e-5)
    assert entry["gradient_norm"] == pytest.approx(float(norm), rel=1e-4)


def test_how_an_update_is_cut_does_not_matter(tmp_path):
    for name, change in {"one": {"batch_frames": 10**6}, "many": {"batch_frames": 1}}.items():
        settings = replace(tiny_training.SETTINGS, batches_per_update=100, max_epochs=2, average=1, **change)
        tiny_training.run(tmp_path / "data", tmp_path / name, settings, dropout=0.0)
    for one, many in zip(log(tmp_path / "one", "train"), log(tmp_path / "many", "train"), strict=True):
        for term in ("total", "nll", "ctc", "gradient_norm"):
            assert one[term] == pytest.approx(many[term], rel=1e-4)


def test_clipping_is_that_of_torch():
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    gradients = Gradients(layer.parameters())
    layer(torch.randn(5, 4)).square().sum().backward()
    theirs = [p.grad.clone().requires_grad_() for p in layer.parameters() if p.grad is not None]
    for tensor in theirs:
        tensor.grad = tensor.detach().clone()
    norm = torch.nn.utils.clip_grad_norm_(theirs, 0.5)
    torch.testing.assert_close(gradients.clip(0.5), norm)
    for parameter, tensor in zip(layer.parameters(), theirs, strict=True):
        torch.testing.assert_close(parameter.grad, tensor.grad)


def test_frozen_parameters_stay_and_teachers_do_not_drop_out(tmp_path):
    class Listening(SpeechToText):
        """Takes its decoder for a teacher."""

        def teachers(self):
            return [self.backbone.model.model.decoder]  # pyright: ignore[reportAttributeAccessIssue]

        def forward(self, batch):
            modes.add((self.training, decoder.training, decoder.layers[0].training, encoder.training))
            return super().forward(batch)

    modes: set[tuple[bool, ...]] = set()
    backbone = tiny.backbone(dropout=0.1)
    encoder, decoder = backbone.model.model.encoder, backbone.model.model.decoder
    decoder.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in backbone.state_dict().items()}
    data, dev = tiny_training.data(tmp_path / "data", backbone)
    settings = replace(PLAIN, weight_decay=0.1)
    with Run(tmp_path / "out", settings, {}) as run:
        train(Listening(backbone), data, dev, settings, run, backbone.save_pretrained, progress=False)
    moved = {name for name, tensor in backbone.state_dict().items() if not torch.equal(tensor, before[name])}
    assert not {name for name in moved if ".decoder." in name or "lm_head" in name}
    assert {n for n, p in encoder.named_parameters() if p.requires_grad} == {
        n.removeprefix("model.model.encoder.") for n in moved
    }
    assert modes == {(True, False, False, True), (False, False, False, False)}


def test_two_processes_train_like_one(tmp_path):
    """An odd number of micro-batches leaves one process without work in the last update of an epoch."""
    tiny_training.run(tmp_path / "data", tmp_path / "one")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *launcher, SCRIPT, tmp_path / "data", tmp_path / "two"],
        check=False, timeout=600, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    settings = tiny_training.SETTINGS
    lengths = [u.n_frames for u in tiny_training.utterances(tmp_path / "data", 15, 1)]
    plan = BatchPlan(lengths, settings.batch_frames, settings.batches_per_update, settings.seed)
    assert len(plan.epoch(0)[-1]) == 1
    assert_trained_alike(tmp_path / "one", tmp_path / "two")


def assert_trained_alike(first: Path, second: Path) -> None:
    """All losses of the log, and the weights."""
    for kind in ("train", "dev", "end"):
        for one, two in zip(log(first, kind), log(second, kind), strict=True):
            for name in one.keys() - {"kind", "seconds", "frames_per_second"}:
                assert two[name] == pytest.approx(one[name], rel=1e-5)
    one, two = weights(first), weights(second)
    for name in one:
        np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_two_machines_train_like_one(tmp_path):
    """Two launchers with an address each, as on two machines that share a directory."""
    tiny_training.run(tmp_path / "data", tmp_path / "one")
    with socket.socket() as free:
        free.bind(("127.0.0.2", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(2):
        place = ["--nnodes", "2", "--node-rank", str(rank), "--local-addr", f"127.0.0.{2 + rank}"]
        meeting = ["--master-addr", "127.0.0.2", "--master-port", str(port)]
        launcher = [sys.executable, "-m", "torch.distributed.run", *place, *meeting, "--nproc-per-node", "1"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        started.append(subprocess.Popen([*launcher, SCRIPT, tmp_path / "data", tmp_path / "two"], env=environment))
    assert [process.wait(timeout=600) for process in started] == [0, 0]
    assert_trained_alike(tmp_path / "one", tmp_path / "two")


def test_processes_must_share_evenly(tmp_path, monkeypatch):
    monkeypatch.setattr(running(), "num_processes", 3)
    with pytest.raises(InputError, match="batches_per_update is 2, which 3 processes cannot share evenly"):
        tiny_training.run(tmp_path / "data", tmp_path / "out")


def test_loading_in_another_process_changes_nothing(tmp_path):
    for workers in (0, 1):
        settings = replace(tiny_training.SETTINGS, workers=workers, max_epochs=1)
        tiny_training.run(tmp_path / "data", tmp_path / str(workers), settings)
    one, other = weights(tmp_path / "0"), weights(tmp_path / "1")
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_patience_ends_a_run_that_does_not_get_better(tmp_path):
    settings = replace(PLAIN, max_updates=50, learning_rate=1e-12, evaluate_every=1, patience=3, average=1)
    with pytest.MonkeyPatch.context() as patch:
        losses = iter([5.0, 4.0, 4.5, 4.0, 4.2, 1.0, 1.0])
        patch.setattr("npda.training.loop.train.means", lambda *_: {"nll": next(losses)})
        summary = tiny_training.run(tmp_path / "data", tmp_path / "out", settings)
    assert summary.updates == 5
    assert summary.averaged == (2,)


@pytest.mark.parametrize(("reached", "averaged"), [(0.5, (1, 2)), (1.5, (2,))])
def test_the_average_is_published_only_if_it_is_better(tmp_path, reached, averaged):
    settings = replace(PLAIN, max_updates=2, evaluate_every=1, average=2)
    with pytest.MonkeyPatch.context() as patch:
        losses = iter([2.0, 1.0, reached, 1.0])
        patch.setattr("npda.training.loop.train.means", lambda *_: {"nll": next(losses)})
        summary = tiny_training.run(tmp_path / "data", tmp_path / "out", settings)
    assert summary.averaged == averaged
    files = [f"best-{update:08d}.safetensors" for update in averaged]
    stored = [safetensors.numpy.load_file(tmp_path / "out/train/checkpoints" / file) for file in files]
    name = "model.encoder.layer_norm.weight"
    mean = np.mean([tensors[f"backbone.model.{name}"] for tensors in stored], axis=0)
    np.testing.assert_allclose(weights(tmp_path / "out")[name], mean, rtol=1e-6)


def test_a_gradient_that_is_no_number_stops_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(Gradients, "clip", lambda self, limit: torch.tensor(float("nan")))
    with pytest.raises(InputError, match="gradient of update 1 is not finite"):
        tiny_training.run(tmp_path / "data", tmp_path / "out")


def test_too_long_utterances_are_counted(tmp_path, caplog):
    backbone = tiny.backbone(max_target_positions=30)
    made = tiny_training.utterances(tmp_path, 6)
    limit = sorted(u.n_frames for u in made)[3]
    long_text = replace(min(made, key=lambda u: u.n_frames), tgt_text="Wo ist die Küche?" * 5)
    made = [long_text if u.id == long_text.id else u for u in made]
    data = SpeechData(made, backbone, max_frames=limit)
    assert (len(data), data.dropped) == (3, 3)
    with pytest.raises(InputError, match="None of the 6 utterances can be used"):
        SpeechData(made, backbone, max_frames=10)
    with pytest.raises(InputError, match=r"frames of 10 ms, but n_frames of '0-0' in the manifest is 10"):
        SpeechData([replace(made[0], n_frames=10)], backbone)
    with pytest.raises(InputError, match="has no src_text"):
        SpeechData([replace(made[0], src_text=" ")], backbone, source=backbone.source)


def test_from_manifests_to_a_model_that_transformers_opens(tmp_path):
    """A recogniser, then a translator with its encoder, then that one trained further."""
    manifests = tiny_training.manifests(tmp_path)
    settings = replace(MINI, max_epochs=1, batch_frames=600, warmup=2, spec_augment="lb", max_frames=150)
    model = SpeechModel("asr", "mini", source_size=50, target_size=50)
    recogniser = train_speech(manifests[:1], manifests[1:], tmp_path / "asr", model, settings, progress=False)
    assert recogniser.epochs == 1

    seen = []
    model = replace(model, task="st", encoder=tmp_path / "asr")
    # Without updates worth the name the encoder is still the recogniser's.
    still = replace(settings, learning_rate=1e-12)

    def bleu(backbone, update):
        seen.append((type(backbone).__name__, backbone.training))
        return {"bleu": 12.5}

    train_speech(manifests[:1], manifests[1:], tmp_path / "st", model, still, bleu, progress=False)
    assert seen == [("Speech2Text", False)]
    assert log(tmp_path / "st", "dev")[0]["bleu"] == 12.5
    mine, theirs = load_speech2text(tmp_path / "st"), load_speech2text(tmp_path / "asr")
    assert mine.source is not None
    assert theirs.source is not None
    assert mine.source.digest() == theirs.source.digest() == theirs.target.digest() != mine.target.digest()
    assert mine.normalizer.mean is not None
    np.testing.assert_array_equal(mine.normalizer.mean, theirs.normalizer.mean)  # pyright: ignore[reportArgumentType]
    name = "model.encoder.layers.0.fc1.weight"
    np.testing.assert_allclose(weights(tmp_path / "st")[name], weights(tmp_path / "asr")[name], atol=1e-9)

    further = SpeechModel(start=tmp_path / "st")
    summary = train_speech(manifests[:1], manifests[1:], tmp_path / "further", further, settings, progress=False)
    theirs = Speech2TextForConditionalGeneration.from_pretrained(tmp_path / "further").eval()
    backbone = load_speech2text(tmp_path / "further")
    dev = SpeechData(tiny_training.utterances(tmp_path / "audio", 5, 2), backbone)
    loss, tokens = 0.0, 0
    with torch.no_grad():
        for index, length in enumerate(dev.lengths):
            if length <= 150:
                batch = dev.batch([index])
                loss += float(theirs(input_features=batch.features, labels=batch.labels).loss) * batch.labels.numel()
                tokens += batch.labels.numel()
    assert summary.dev["nll"] == pytest.approx(loss / tokens, rel=1e-4)


def test_the_seed_decides_the_weights(tmp_path):
    manifests = tiny_training.manifests(tmp_path)
    model = SpeechModel("st", "mini", source_size=50, target_size=50)
    settings = replace(MINI, max_epochs=None, max_updates=1, batch_frames=600, ctc_weight=0.0)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        changed = replace(settings, seed=seed)
        train_speech(manifests[:1], manifests[1:], tmp_path / name, model, changed, progress=False)
    stored = [(tmp_path / name / "model.safetensors").read_bytes() for name in "abc"]
    assert stored[0] == stored[1] != stored[2]
    vocabulary = SpeechModel("st", "mini", vocabulary=tmp_path / "a")
    train_speech(manifests[1:], manifests[1:], tmp_path / "reused", vocabulary, settings, progress=False)
    assert load_speech2text(tmp_path / "reused").target.digest() == load_speech2text(tmp_path / "a").target.digest()
    described = json.loads((tmp_path / "reused/train/settings.json").read_text())["description"]
    assert described["task"] == "st"
    with pytest.raises(InputError, match=r"task was \"st\", now \"asr\""):
        train_speech(
            manifests[1:], manifests[1:], tmp_path / "reused", replace(vocabulary, task="asr"), settings, progress=False
        )


def test_dropout_and_normalisation_are_choices_of_the_model(tmp_path):
    manifests = tiny_training.manifests(tmp_path)
    model = SpeechModel("st", "mini", source_size=50, target_size=50)
    chosen = replace(model, dropout=0.35, normalization="utterance")
    settings = replace(MINI, max_epochs=None, max_updates=1, batch_frames=600)
    train_speech(manifests[:1], manifests[1:], tmp_path / "out", chosen, settings, progress=False)
    made = load_speech2text(tmp_path / "out")
    assert made.model.config.dropout == 0.35
    features = made.features(np.random.default_rng(0).normal(0, 0.1, 32_000).astype(np.float32))
    np.testing.assert_allclose((features.mean(axis=0), features.std(axis=0)), ((0,) * 80, (1,) * 80), atol=1e-4)
    assert set(chosen.description()) - set(model.description()) == {"dropout", "normalization"}
    for change in ({"dropout": 1.0}, {"normalization": "none"}):
        with pytest.raises(InputError, match="must"):
            replace(model, **change)


def test_languages_are_found_in_the_data(tmp_path):
    from npda.corpus.manifest import write_manifest

    made = [
        u for seed, lang in ((3, "de"), (4, "fr")) for u in tiny_training.utterances(tmp_path, 3, seed, tgt_lang=lang)
    ]
    write_manifest(tmp_path / "both.tsv", made)
    model = SpeechModel("st", "mini", source_size=50, target_size=60)
    settings = replace(MINI, max_epochs=None, max_updates=1)
    train_speech([tmp_path / "both.tsv"], [tmp_path / "both.tsv"], tmp_path / "out", model, settings, progress=False)
    assert load_speech2text(tmp_path / "out").target.languages == ("de", "fr")


@pytest.mark.parametrize(
    ("able", "precision", "rounded"),
    [({"avx512_bf16": True}, "bfloat16", True), ({"avx512_bf16": True}, "float32", False), ({}, "bfloat16", False)],
)
def test_products_are_rounded_only_where_the_processor_is_made_for_it(monkeypatch, able, precision, rounded):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: able)
    with autocast(torch.device("cpu"), precision):
        computed = torch.ones(2, 2) @ torch.full((2, 2), 1 + 2**-12)
    assert computed.float().unique().item() == (2.0 if rounded else 2 + 2**-11)
