"""Subword sampling against all ways to cut a word, counted out; and a run that samples, killed and continued."""

import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import tiny_training
import torch
from child_env import child_env
from tiny_alignment import SETTINGS, aligned_backbone

from npda.corpus.manifest import read_manifest
from npda.io.errors import InputError
from npda.text import Vocabulary
from npda.training.data.subwords import SubwordSampling
from npda.training.data.teacher import TeacherStates
from npda.training.objectives.alignment import Align, AlignData
from npda.training.tasks.align import AlignOptions, train_alignment

ALPHA = 0.1
OPTIONS = AlignOptions(layers=1, subword_alpha=ALPHA)
SAMPLED = replace(SETTINGS, max_epochs=3, save_every=2, log_every=1)


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return tiny.vocabulary()


def all_ways(vocabulary: Vocabulary, word: str) -> dict[tuple[int, ...], float]:
    """Every way to cut a word, with its log-probability: the pieces' scores, summed up."""
    processor = vocabulary._processor
    pieces = {processor.id_to_piece(i): i for i in range(4, len(vocabulary))}
    found: dict[tuple[int, ...], float] = {}

    def cut(rest: str, ids: tuple[int, ...], score: float) -> None:
        if not rest:
            found[ids] = score
        for end in range(1, len(rest) + 1):
            if (id_ := pieces.get(rest[:end])) is not None:
                cut(rest[end:], (*ids, id_), score + processor.get_score(id_))

    cut("▁" + word, (), 0.0)
    return found


@pytest.mark.parametrize("word", ["sprechen.", "den", "door."])
def test_segmentations_are_all_ways_to_cut_a_word(vocabulary, word):
    expected = all_ways(vocabulary, word)
    assert len(expected) >= 4
    found = vocabulary.segmentations(word, 512)
    assert {tuple(ids): score for ids, score in found} == pytest.approx(expected, rel=1e-5)
    assert found[0][0] == vocabulary.encode(word)
    assert [score for _, score in found] == pytest.approx(sorted(expected.values(), reverse=True), rel=1e-5)
    assert len(vocabulary.segmentations(word, 2)) == 2


def test_words_are_cut_as_often_as_their_likelihood_says(vocabulary):
    expected, count = all_ways(vocabulary, "sprechen."), 4_000
    weights = {ids: math.exp(ALPHA * score) for ids, score in expected.items()}
    torch.manual_seed(0)
    drawn = Counter(tuple(ids) for ids in SubwordSampling(vocabulary, ALPHA)(["sprechen."] * count))
    assert drawn.keys() <= weights.keys()
    for ids, weight in weights.items():
        p = weight / sum(weights.values())
        assert drawn[ids] == pytest.approx(count * p, abs=5 * math.sqrt(count * p * (1 - p)) + 1)


def test_only_the_cuts_differ(vocabulary):
    texts = [*tiny.SENTENCES, "漢字 und Öl", ""]
    sampling = SubwordSampling(vocabulary, ALPHA)
    torch.manual_seed(1)
    first, second = sampling(texts), sampling(texts)
    assert first != second
    for ids, text in zip(first, texts, strict=True):
        assert vocabulary.decode(ids) == vocabulary.decode(vocabulary.encode(text))
        assert ids.count(vocabulary.unk) == vocabulary.encode(text).count(vocabulary.unk)
    torch.manual_seed(1)
    assert SubwordSampling(vocabulary, ALPHA)(texts) == first  # whatever was drawn and kept before
    with pytest.raises(InputError, match=r"not above 1, but it is 1\.5"):
        SubwordSampling(vocabulary, 1.5)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """base/, train.tsv and dev.tsv"""
    directory = tmp_path_factory.mktemp("data")
    tiny.backbone(init_std=0.05).save_pretrained(directory / "base")
    tiny_training.manifests(directory)
    return directory


def align(data: Path, out: Path) -> None:
    """Train, or go on training, with dropout and sampling."""
    manifests = [data / "train.tsv"], [data / "dev.tsv"]
    train_alignment(data / "base", *manifests, out, SAMPLED, OPTIONS, progress=False)


def test_every_pass_reads_other_pieces_and_dev_never(data, tmp_path):
    model = aligned_backbone()
    assert model.source is not None
    assert model.text_encoder is not None
    utterances = read_manifest(data / "train.tsv")
    TeacherStates.make(tmp_path / "teacher", utterances, model, progress=False)
    batch = AlignData(utterances, model, TeacherStates.open(tmp_path / "teacher")).batch(range(8))
    plain = Align(model, model.text_encoder, "full", 0.0)
    sampled = Align(model, model.text_encoder, "full", 0.0, SubwordSampling(model.source, ALPHA))

    def mse(objective: Align, training: bool, seed: int = 0) -> float:
        torch.manual_seed(seed)
        return objective.train(training)(batch)["mse"].item()

    assert mse(sampled, True, 1) != mse(sampled, True, 2)
    assert mse(sampled, True, 1) == mse(sampled, True, 1)
    assert mse(plain, True) == pytest.approx(mse(plain, False), rel=1e-4)
    assert mse(sampled, False, 1) == mse(sampled, False, 2) == mse(plain, False)


def test_a_killed_run_that_samples_goes_on_as_if_nothing_had_happened(data, tmp_path):
    align(data, tmp_path / "whole")
    threads = str(torch.get_num_threads())  # sums are rounded as they are shared out
    process = subprocess.Popen([sys.executable, __file__, data, tmp_path / "killed", threads], env=child_env())
    log, deadline = tmp_path / "killed/train/log.jsonl", time.monotonic() + 300
    while '"update": 5' not in (log.read_text() if log.exists() else ""):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed/config.json").exists()
    align(data, tmp_path / "killed")
    whole, killed = ((tmp_path / name / "text_encoder/model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert killed == whole


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    align(Path(sys.argv[1]), Path(sys.argv[2]))
