"""Alignment of the text path: eq. 4 in plain NumPy, the base frozen bit for bit, every ablation."""

import json
from functools import partial

import numpy as np
import pytest
import tiny
import tiny_training
import tiny_whisper
import torch
from tiny_alignment import SETTINGS, aligned_backbone

from npda.models import load_speech2text
from npda.models.inputs import hear_batch
from npda.training.objectives.alignment import VARIANTS, Align, AlignBatch
from npda.training.tasks.align import AlignOptions, compute_teacher, default_variant, train_alignment


def batch(model) -> AlignBatch:
    """Two sentences of different length, with random teacher states."""
    pad, eos = model.target.pad, model.target.eos
    tokens = torch.tensor([[2, 5, 6, 7], [2, 8, pad, pad]])
    labels = torch.tensor([[5, 6, 7, eos], [8, eos, pad, pad]])
    source = torch.tensor([[9, 10, 11], [12, pad, pad]])
    return AlignBatch(source, torch.tensor([3, 1]), tokens, labels, torch.randn(2, 4, model.dim))


@pytest.mark.parametrize("variant", ["full", "logits"])
def test_terms_equal_the_formula(variant):
    model = aligned_backbone()
    given = batch(model)
    assert model.text_encoder is not None
    objective = Align(model, model.text_encoder, variant, label_smoothing=0.0).eval()
    sums, counts = objective(given), objective.counts(given)

    with torch.no_grad():
        states = model.states(model.read(given.source, given.source_lengths), given.tokens)
        log_probs = model.logits(states).log_softmax(-1).numpy()
        ours, theirs = (states, given.teacher) if variant == "full" else map(model.logits, (states, given.teacher))
    lengths, nll, mse, cosine = [4, 2], 0.0, 0.0, 0.0
    for row, length in enumerate(lengths):
        distances = [np.sum((ours[row, t].numpy() - theirs[row, t].numpy()) ** 2) for t in range(length)]
        mse += np.mean(distances)
        for t in range(length):
            nll -= log_probs[row, t, given.labels[row, t]]
            a, b = states[row, t].numpy(), given.teacher[row, t].numpy()
            cosine += a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert sums["mse"].item() / counts["mse"] == pytest.approx(mse / 2, rel=1e-4)
    assert sums["nll"].item() / counts["nll"] == pytest.approx(nll / 6, rel=1e-4)
    assert sums["cosine"].item() / counts["cosine"] == pytest.approx(cosine / 6, rel=1e-4, abs=1e-6)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    directory = tmp_path_factory.mktemp("base")
    tiny.backbone(init_std=0.05).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    directory = tmp_path_factory.mktemp("speech")
    from npda.corpus.manifest import write_manifest

    write_manifest(directory / "train.tsv", tiny_training.utterances(directory, 12, 0))
    return directory / "train.tsv"


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_the_text_encoder_moves(variant, base, manifest, tmp_path):
    before = load_speech2text(base).model.state_dict()
    train_alignment(base, [manifest], [manifest], tmp_path, SETTINGS, AlignOptions(variant, 1), progress=False)
    trained = load_speech2text(tmp_path)
    after = trained.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (base / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert trained.text_encoder is not None
    assert trained.text_encoder.size.layers == (0 if variant == "embedding-only" else 1)
    log = [json.loads(line) for line in (tmp_path / "train" / "log.jsonl").read_text().splitlines()]
    first, last = [entry for entry in log if entry["kind"] == "dev"]
    assert {"nll", "mse", "cosine"} <= last.keys()
    term = "nll" if variant == "no-mse" else "mse"
    assert last[term] < first[term]


def test_without_cross_entropy_the_distance_is_the_same_and_nothing_is_spelled():
    model = aligned_backbone()
    given = batch(model)
    assert model.text_encoder is not None
    full, mse_only = (Align(model, model.text_encoder, variant, 0.0).train() for variant in ("full", "mse-only"))
    terms = [full(given), mse_only(given)]
    assert terms[1].keys() == mse_only.counts(given).keys() == {"mse", "cosine"}
    assert terms[0]["mse"].item() == terms[1]["mse"].item()


def test_states_computed_before_serve_every_variant(base, manifest, tmp_path):
    shared = tmp_path / "teacher"
    compute_teacher(base, [manifest], [manifest], shared, SETTINGS, progress=False)
    kept = {file: file.stat().st_mtime_ns for file in shared.rglob("*")}
    given = base, [manifest], [manifest]
    for out, teacher in ((tmp_path / "own", None), (tmp_path / "shared", shared)):
        train_alignment(*given, out, SETTINGS, AlignOptions("full", 1), progress=False, teacher=teacher)
    own, other = (load_speech2text(tmp_path / out).state_dict() for out in ("own", "shared"))
    assert all(torch.equal(own[name], other[name]) for name in own)
    assert kept == {file: file.stat().st_mtime_ns for file in shared.rglob("*")}
    assert not (tmp_path / "shared" / "train" / "teacher").exists()


def test_large_models_align_by_the_distance_alone(base, tmp_path):
    tiny_whisper.backbone().save_pretrained(tmp_path)
    assert default_variant(base) == "full"
    assert default_variant(tmp_path) == "mse-only"


def test_teacher_is_the_speech_path_without_noise(base, manifest, tmp_path):
    """The states kept on disk are those of the base hearing the speech in evaluation mode, to half precision."""
    from npda import audio
    from npda.corpus.manifest import read_manifest
    from npda.training.data.teacher import TeacherStates

    train_alignment(base, [manifest], [manifest], tmp_path, SETTINGS, AlignOptions(layers=1), progress=False)
    kept = TeacherStates.open(tmp_path / "train" / "teacher" / "train")
    model = load_speech2text(base)
    for index, utterance in enumerate(read_manifest(manifest)[:4]):
        features = torch.from_numpy(model.features(audio.load(utterance.audio)))
        tokens = torch.tensor([[*model.prompt(), *model.target.encode(utterance.tgt_text)]])
        with torch.inference_mode():
            states = model.states(model.hear(features[None], torch.tensor([len(features)])), tokens)[0]
        np.testing.assert_allclose(kept[index].astype(np.float32), states.numpy(), atol=5e-3)


def test_states_go_on_where_they_were_killed(base, manifest, tmp_path, monkeypatch):
    from npda.corpus.manifest import read_manifest
    from npda.training.data import teacher
    from npda.training.data.teacher import TeacherStates

    model, utterances, heard = load_speech2text(base), read_manifest(manifest), []
    make = partial(TeacherStates.make, utterances=utterances, backbone=model, batch_frames=300, progress=False)
    make(tmp_path / "whole")

    def hear(backbone, features, tokens):
        if len(heard) == killed_at:
            raise KeyboardInterrupt
        heard.append(len(features))
        return hear_batch(backbone, features, tokens)

    monkeypatch.setattr(teacher, "hear_batch", hear)
    killed_at = 2
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "killed")
    assert not (tmp_path / "killed").exists()
    killed_at = -1
    make(tmp_path / "killed")
    assert sum(heard) == len(utterances)  # nothing was heard twice
    assert {file.name for file in (tmp_path / "killed").iterdir()} == {"teacher.json", "states.npy", "offsets.npy"}
    for name in ("states.npy", "offsets.npy"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    heard.clear()  # what was begun for other utterances is of no use
    killed_at = 1
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "other")
    killed_at = -1
    make(tmp_path / "other", utterances=utterances[:-1])
    assert sum(heard[1:]) == len(utterances) - 1
