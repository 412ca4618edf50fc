"""Loops against a test written with Python lists, and a ban on repetition against transformers' own."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_loops import is_loop
from transformers.generation.logits_process import NoRepeatNGramLogitsProcessor

from npda.decoding.loops import LONGEST, NoRepeats, ends_in_loop, first_loop, rounds

# Texts that hold phrases several times, broken or whole.
phrases = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=LONGEST + 2), st.integers(1, 9))
texts = st.lists(phrases, max_size=4).map(lambda found: [token for phrase, n in found for token in phrase * n])


@given(texts, st.integers(0, 12))
def test_ends_in_loop_says_what_lists_say(text, cut):
    text = text[: max(len(text) - cut, 0)]
    assert ends_in_loop(torch.tensor([text], dtype=torch.long)).tolist() == [is_loop(text)]


@given(texts)
def test_the_first_loop_is_where_the_text_first_ends_in_one(text):
    complete = [length for length in range(len(text) + 1) if is_loop(text[:length])]
    loop = first_loop(text)
    assert (loop is None) == (not complete)
    if loop is not None:
        assert loop.start + loop.period * rounds(loop.period) == complete[0]
        round_ = text[loop.start : loop.after_first_round]
        assert text[loop.start : complete[0]] == round_ * rounds(loop.period)


@given(st.lists(texts, min_size=1, max_size=5))
def test_rows_do_not_depend_on_each_other(rows):
    length = min(map(len, rows))
    rows = [row[:length] for row in rows]
    assert ends_in_loop(torch.tensor(rows, dtype=torch.long).view(len(rows), -1)).tolist() == [*map(is_loop, rows)]


def test_people_repeat_themselves_a_little():
    said = [[5, 5, 5, 5], [9, 8, 9, 8, 9, 8], [3, 1, 4] * 2, [7, *range(5), *range(5)], list(range(12)) * 2]
    stuck = [[5] * 6, [9, 8] * 4, [3, 1, 4] * 3, [*range(5)] * 3, list(range(12)) * 3]
    for text in said:
        assert not ends_in_loop(torch.tensor([text])).any()
        assert first_loop(text) is None
    for text in stuck:
        assert ends_in_loop(torch.tensor([[20, 21, *text]])).all()
        loop = first_loop([20, 21, *text, 22])
        assert loop is not None
        assert loop.start == 2


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 4, 30])
def test_no_repeats_forbids_what_transformers_forbids(size, length):
    generator = torch.Generator().manual_seed(size + length)
    written = torch.randint(0, 3, (6, length), generator=generator)
    log_probs = torch.randn(6, 5, generator=generator)
    prompt = torch.full((6, 2), 4)
    prefixes = torch.cat([prompt, written], dim=1)
    ours = NoRepeats(2, size).apply(torch.empty(6, 1), log_probs, prefixes, torch.arange(6))
    ban: Any = NoRepeatNGramLogitsProcessor(size)
    theirs = ban(written, log_probs.clone()) if length else log_probs
    assert torch.equal(ours, theirs)


def test_no_token_cannot_be_repeated():
    with pytest.raises(ValueError, match="not 0"):
        NoRepeats(2, 0)
