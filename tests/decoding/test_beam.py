"""Beam search against transformers' ``generate`` and against a plain search written with Python lists.

All of them write a token before they end. Random weights love loops: transformers does not stop them.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import tiny
import torch
from plain_loops import is_loop

from npda.decoding.beam import SearchOptions, search
from npda.models.backbone import Memory
from npda.models.speech2text import Speech2Text


def generate(model, features, **options):
    """transformers' own decoding: token lists without start and end symbols, and the sum of the scores."""
    mask = torch.ones(features.shape[:2], dtype=torch.long)
    theirs: Any = tiny.theirs(model) if isinstance(model, Speech2Text) else model.model
    out = theirs.generate(
        features,
        attention_mask=mask,
        do_sample=False,
        min_new_tokens=1,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    rows = [row[1:] for row in out.sequences.tolist()]
    eos, pad = model.target.eos, model.target.pad
    texts = [row[: row.index(eos)] if eos in row else [t for t in row if t != pad] for row in rows]
    return texts, float(out.sequences_scores.sum()) if "sequences_scores" in out else 0.0


def hear(model, lengths, seed=0):
    features, lengths = tiny.speech(lengths, seed)
    with torch.inference_mode():
        return features, model.hear(features, lengths)


@cache
def trained(seed: int):
    """A model that has learnt to say a sentence for each of eight noises, and is fairly sure of it."""
    model = tiny.backbone(seed, init_std=0.05)
    features, lengths = tiny.speech([80] * 8, seed)
    texts = [model.target.encode(text) for text in (tiny.SENTENCES * 2)[:8]]
    pieces = [torch.tensor([*model.prompt(), *text, model.target.eos]) for text in texts]
    tokens = torch.nn.utils.rnn.pad_sequence(pieces, batch_first=True, padding_value=model.target.pad)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(80):
        noisy = features + 0.5 * torch.randn(features.shape)  # what is learnt must hold for the test's other noise
        logits = model.logits(model.states(model.hear(noisy, lengths), tokens[:, :-1]))
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=model.target.pad, label_smoothing=0.1
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("make", [tiny.backbone, trained], ids=["random weights", "trained weights"])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_is_token_identical_to_transformers(make, seed):
    model = make(seed)
    features, memory = hear(model, [80] * 8, seed)
    expected, _ = generate(model, features, num_beams=1, max_new_tokens=30)
    ours = search(model, memory, model.prompt(), SearchOptions(beam=1, max_length=30, stop_loops=False))
    assert [list(hypotheses[0].tokens) for hypotheses in ours] == expected


@pytest.mark.parametrize("make", [tiny.backbone, trained], ids=["random weights", "trained weights"])
def test_beam_agrees_with_transformers(make):
    agreed, sentences, our_score, their_score = 0, 0, 0.0, 0.0
    for seed in range(3):
        model = make(seed)
        features, memory = hear(model, [80] * 8, seed)
        expected, scores = generate(model, features, num_beams=5, length_penalty=0.6, max_new_tokens=30)
        options = SearchOptions(beam=5, length_penalty=0.6, max_length=30, stop_loops=False)
        ours = search(model, memory, model.prompt(), options)
        agreed += sum(list(hypotheses[0].tokens) == tokens for hypotheses, tokens in zip(ours, expected, strict=True))
        sentences += len(ours)
        our_score += sum(hypotheses[0].score for hypotheses in ours)
        their_score += scores
    assert agreed >= 0.95 * sentences
    assert our_score >= their_score - 1e-3


def reference_search(model, memory: Memory, options: SearchOptions):
    """One sentence, no cache, no tensors over beams: every prefix is decoded anew."""
    live = [(0.0, list(model.prompt()))]
    finished = []
    start = len(live[0][1])
    for length in range(1, options.max_length + 1):
        candidates = []
        for log_prob, prefix in live:
            states = model.states(memory, torch.tensor([prefix]))[:, -1]
            row = torch.log_softmax(model.logits(states)[0], dim=-1)
            row[model.target.eos] -= 1e9 if length == 1 else 0
            candidates += [(log_prob + p, [*prefix, t]) for t, p in enumerate(row.tolist())]
        candidates = sorted(candidates, reverse=True)[: 2 * options.beam]
        for rank, (log_prob, tokens) in enumerate(candidates):
            ends = tokens[-1] == model.target.eos
            if rank < options.beam and (ends or length == options.max_length):
                finished.append((log_prob / length**options.length_penalty, tokens[start : -1 if ends else None]))
        finished = sorted(finished, reverse=True)[: options.beam]
        live = [c for c in candidates if c[1][-1] != model.target.eos][: options.beam]
        if options.stop_loops and length % 4 == 0:
            looping = [c for c in live if is_loop(c[1][start:])]
            live = [c for c in live if c not in looping]
            if not live:
                return usable_first(finished or [(p / length**options.length_penalty, t[start:]) for p, t in looping])
        if len(finished) == options.beam and live[0][0] / length**options.length_penalty <= finished[-1][0]:
            break
    return usable_first(finished) if options.stop_loops else finished


def usable_first(hypotheses):
    return sorted(hypotheses, key=lambda h: any(is_loop(h[1][:end]) for end in range(len(h[1]) + 1)))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize(("seed", "stop_loops"), [(3, False), (3, True), (11, True), (10, True)])
def test_n_best_equals_the_plain_search(alpha, seed, stop_loops):
    model = tiny.backbone(seed)
    length = 30 if stop_loops else 12
    options = SearchOptions(beam=4, length_penalty=alpha, max_length=length, n_best=4, stop_loops=stop_loops)
    _, memory = hear(model, [60, 85, 33])
    ours = search(model, memory, model.prompt(), options)
    for row, hypotheses in enumerate(ours):
        with torch.inference_mode():
            alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
            expected = reference_search(model, alone, options)
        assert [list(h.tokens) for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


class Penalties:
    """A fusion that changes nothing but how long translations are to be: sentence n has its own α, after some steps."""

    def __init__(self, alphas, after: int = 0) -> None:
        self.alphas, self.after, self.steps = alphas, after, 0

    def apply(self, states, log_probs, prefixes, sentences):
        self.steps += 1
        return log_probs

    def length_penalties(self, alphas, sentences):
        return torch.tensor(self.alphas)[sentences] if self.steps > self.after else alphas


def test_sentences_may_have_length_penalties_of_their_own():
    model, alphas = tiny.backbone(3), [0.0, 1.5, 0.6]
    _, memory = hear(model, [60, 85, 33])
    options = SearchOptions(beam=4, max_length=12, n_best=4)
    together = search(model, memory, model.prompt(), options, [Penalties(alphas)])
    for row, alpha in enumerate(alphas):
        alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
        (expected,) = search(model, alone, model.prompt(), replace(options, length_penalty=alpha))
        assert [h.tokens for h in together[row]] == [h.tokens for h in expected]
        assert [h.score for h in together[row]] == pytest.approx([h.score for h in expected], abs=1e-5)


def test_hypotheses_are_judged_by_the_last_length_penalty():
    model = tiny.backbone(3)
    _, memory = hear(model, [60])
    options = SearchOptions(beam=4, length_penalty=0.0, max_length=12, n_best=4)
    (found,) = search(model, memory, model.prompt(), options, [Penalties([1.5], after=4)])
    assert [h.score for h in found] == pytest.approx([h.log_prob / (len(h.tokens) + h.ended) ** 1.5 for h in found])
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_a_hypothesis_does_not_depend_on_its_batch():
    model = tiny.backbone(1)
    lengths = [120, 40, 75, 9, 64, 101, 33, 58]
    features, memory = hear(model, lengths)
    options = SearchOptions(beam=5, max_length=40, n_best=2)
    together = search(model, memory, model.prompt(), options)
    for row, length in enumerate(lengths):
        with torch.inference_mode():
            alone = model.hear(features[row : row + 1, :length], torch.tensor([length]))
        (hypotheses,) = search(model, alone, model.prompt(), options)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in together[row]]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in together[row]], abs=1e-4)


def test_score_is_log_prob_over_length_to_the_alpha():
    """The log-probability of a hypothesis is that of a teacher-forced pass, its end symbol included."""
    model = tiny.backbone(7)
    _, memory = hear(model, [70])
    options = SearchOptions(beam=5, length_penalty=0.6, max_length=200)
    (best,) = search(model, memory, model.prompt(), options)[0]
    assert best.ended
    tokens = [*model.prompt(), *best.tokens, model.target.eos]
    with torch.inference_mode():
        log_probs = model.logits(model.states(memory, torch.tensor([tokens[:-1]]))).log_softmax(-1)[0]
    expected = sum(log_probs[t, token].item() for t, token in enumerate(tokens[1:]))
    assert best.log_prob == pytest.approx(expected, abs=1e-3)
    assert best.score == pytest.approx(expected / (len(best.tokens) + 1) ** 0.6, abs=1e-3)


def test_fusions_are_applied_in_order_with_states_and_prefixes():
    """A fusion that leaves one continuation per position dictates the output; a second one may overrule it."""
    model = tiny.backbone()
    _, memory = hear(model, [50, 70])
    dictated = [7, 8, 9, model.target.eos]

    class Dictate:
        def apply(self, states, log_probs, prefixes, sentences):
            assert states.shape == (len(prefixes), model.dim)
            only = torch.full_like(log_probs, -1e4)
            only[:, dictated[min(prefixes.shape[1], len(dictated)) - 1]] = 0.0
            return only

    class Replace:
        def apply(self, states, log_probs, prefixes, sentences):
            swapped = log_probs.clone()
            swapped[:, [8, 10]] = log_probs[:, [10, 8]]
            return swapped

    options = SearchOptions(beam=3, max_length=10)
    assert [h[0].tokens for h in search(model, memory, [2], options, [Dictate()])] == [(7, 8, 9)] * 2
    assert [h[0].tokens for h in search(model, memory, [2], options, [Dictate(), Replace()])] == [(7, 10, 9)] * 2


@pytest.mark.parametrize("wrong", [dict(beam=0), dict(max_length=0), dict(beam=2, n_best=3)])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        SearchOptions(**wrong)
