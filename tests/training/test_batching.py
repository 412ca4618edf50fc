"""Batches by length: every example once, no batch too large, the same for any number of processes."""

from itertools import pairwise

import numpy as np
import tiny
import tiny_training
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from npda.models.batches import cut
from npda.training.data.speech import Share, SpeechData
from npda.training.loop.batching import BatchPlan, by_length, derived_seed

LENGTHS = st.lists(st.integers(1, 500), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 5), st.integers(0, 3))
def test_an_epoch_has_every_example_once_in_batches_within_the_budget(lengths, budget, per_update, epoch):
    updates = BatchPlan(lengths, budget, per_update, seed=7).epoch(epoch)
    batches = [batch for update in updates for batch in update]
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(update) == per_update for update in updates[:-1])
    assert 1 <= len(updates[-1]) <= per_update
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


@given(LENGTHS, st.integers(1, 1000))
def test_evaluation_batches_have_every_example_once(lengths, budget):
    batches = by_length(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget for batch in batches)


@given(LENGTHS, st.integers(1, 1000), st.integers(1, 8), st.booleans())
def test_cutting_keeps_the_order_and_fills_every_batch(lengths, room, most, longest_first):
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=longest_first)
    batches = cut(order, lengths, room, most)
    assert [i for batch in batches for i in batch] == order
    assert all(1 <= len(batch) <= most for batch in batches)
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= room for batch in batches)
    for batch, following in pairwise(batches):
        together = [*batch, following[0]]
        assert len(batch) == most or len(together) * max(lengths[i] for i in together) > room


def test_epochs_differ_and_repeat():
    lengths = np.random.default_rng(0).integers(50, 150, 200).tolist()
    plan = BatchPlan(lengths, 1000, 2, seed=1)
    assert plan.epoch(3) == BatchPlan(lengths, 1000, 2, seed=1).epoch(3)
    assert plan.epoch(3) != plan.epoch(4)
    assert plan.epoch(3) != BatchPlan(lengths, 1000, 2, seed=2).epoch(3)


def test_sorting_keeps_the_padding_small():
    lengths = np.random.default_rng(0).integers(50, 1000, 2000).tolist()
    batches = [batch for update in BatchPlan(lengths, 20_000, 4, seed=1).epoch(0) for batch in update]
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    assert padded < 1.12 * sum(lengths)


@settings(max_examples=20)
@given(LENGTHS, st.integers(1, 4))
def test_processes_share_all_micro_batches(lengths, processes):
    class Indices:
        dropped = 0

        def __init__(self):
            self.lengths = lengths

        def fingerprint(self):
            return ""

        def batch(self, indices):
            return indices

    updates = BatchPlan(lengths, 700, 4, seed=0).epoch(0)
    shares = [Share(updates, Indices(), process, processes) for process in range(processes)]
    for number, update in enumerate(updates):
        together = sorted(item for share in shares for item in share[number])
        assert together == list(enumerate(update))


def test_every_micro_batch_has_its_own_seed():
    seeds = {derived_seed(s, u, m) for s in range(5) for u in range(50) for m in range(4)}
    assert len(seeds) == 5 * 50 * 4
    torch.manual_seed(max(seeds))


def test_batch_of_a_multilingual_model(tmp_path):
    """Prompt and text are fed, text and end symbol are predicted, the language tag is given."""
    backbone = tiny.backbone(languages=("de", "fr"))
    german, french = (
        tiny_training.utterances(tmp_path, 1, 0, tgt_lang="de"),
        tiny_training.utterances(tmp_path, 1, 1, tgt_lang="fr"),
    )
    data = SpeechData([*german, *french], backbone, source=backbone.source)
    batch = data.batch([0, 1])
    target, pad = backbone.target, backbone.target.pad
    assert backbone.source is not None
    for row, utterance in enumerate([*german, *french]):
        text = target.encode(utterance.tgt_text)
        prompt = [target.eos, target.language_id(utterance.tgt_lang)]  # this model's decoder starts with </s>
        rest = batch.tokens.shape[1] - len(prompt) - len(text)
        assert batch.tokens[row].tolist() == [*prompt, *text, *[pad] * rest]
        assert batch.labels[row].tolist() == [pad, *text, target.eos, *[pad] * rest]
        assert batch.source[row, : batch.source_lengths[row]].tolist() == backbone.source.encode(utterance.src_text)
        assert batch.lengths[row] == utterance.n_frames
        assert not batch.features[row, utterance.n_frames :].any()


def test_recognition_and_translation_differ_in_their_labels_only(tmp_path):
    backbone = tiny.backbone()
    made = tiny_training.utterances(tmp_path, 1)
    asr, st_ = SpeechData(made, backbone, "asr").batch([0]), SpeechData(made, backbone, "st").batch([0])
    assert backbone.target.decode(asr.labels[0].tolist()) == made[0].src_text
    assert backbone.target.decode(st_.labels[0].tolist()) == made[0].tgt_text
    assert torch.equal(asr.features, st_.features)
