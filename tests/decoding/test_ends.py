"""Translations that end: no empty ones, no loops, and what is tried before a sentence is given up."""

from typing import Any

import pytest
from bigrams import EOS, PAD, START, WORDS, Bigrams

from npda.decoding.beam import SearchOptions
from npda.decoding.beam import search as search_backbone
from npda.decoding.retry import search_with_retry
from npda.models.backbone import Suppressed

GREEDY, BEAM = SearchOptions(beam=1, max_length=60), SearchOptions(beam=4, max_length=60)
# «abc», but rather nothing; «ab» without end; «abc» after a phrase that is hard to leave
PLAIN = {"<start>": {"<eos>": 0.6, "a": 0.4}, "a": {"b": 0.9}, "b": {"c": 0.9, "<eos>": 0.1}, "c": {"<eos>": 0.9}}
ENDLESS = {"<start>": {"a": 0.9}, "a": {"b": 0.99}, "b": {"a": 0.99}}
STICKY = {"<start>": {"a": 0.9}, "a": {"b": 0.9}, "b": {"a": 0.9, "c": 0.01}, "c": {"<eos>": 0.9}}

search: Any = search_backbone  # a model of bigrams is a backbone as far as it is needed
SAME_WORD = {"a": "no", "b": "No", "c": "no,", "d": "NO", "e": "no!", "f": "yes"}


class Repeating:
    """A target side whose first five words are one and the same for a reader."""

    pad, eos = PAD, EOS

    def __len__(self) -> int:
        return len(WORDS)

    def decode(self, ids) -> str:
        return " ".join(SAME_WORD[WORDS[token]] for token in ids if token > START)


def texts(model, found) -> list[str]:
    return [model.target.decode(hypotheses[0].tokens) for hypotheses in found]


def found_by(model, memory, options=BEAM, fusions=(), find=search_with_retry) -> Any:
    return find(model, memory, [START], options, fusions)


class Wants:
    """A fusion that holds some words far likelier than the model does, wherever it is."""

    def __init__(self, *words: str) -> None:
        self.tokens = [WORDS.index(word) for word in words]

    def apply(self, states, log_probs, prefixes, sentences):
        wanted = log_probs.clone()
        wanted[:, self.tokens] = -0.01
        return wanted


@pytest.mark.parametrize("options", [GREEDY, BEAM])
def test_no_translation_is_empty(options):
    model = Bigrams(PLAIN)
    assert texts(model, found_by(model, model.memory(0, 0), options)) == ["abc", "abc"]
    assert texts(model, found_by(model, model.memory(0), options, [Wants("<eos>")]))[0].startswith("a")


@pytest.mark.parametrize("options", [GREEDY, BEAM])
def test_fusions_cannot_bring_back_what_is_suppressed(options):
    word = WORDS.index
    free = Bigrams(PLAIN)
    assert texts(free, found_by(free, free.memory(0), options, [Wants("e", "<eos>")])) == ["e"]
    model = Bigrams(PLAIN, suppressed=Suppressed(always=(word("d"),), first=(word("e"), word("a"), EOS)))
    for hypotheses in found_by(model, model.memory(0, 0), options, [Wants("a", "d", "e", "f")], search):
        written = [WORDS[token] for token in hypotheses[0].tokens]
        assert written[0] == "f"
        assert "d" not in written


def test_white_space_loses_to_words():
    model = Bigrams({"<start>": {" ": 0.9, "a": 0.1}, " ": {"<eos>": 1.0}, "a": {"<eos>": 1.0}})
    (found,) = search(model, model.memory(0), [START], SearchOptions(beam=2, n_best=2))
    assert [model.target.decode(hypothesis.tokens) for hypothesis in found] == ["a", ""]
    assert found[0].score < found[1].score


def test_a_long_row_of_marks_loses_to_words():
    word = {"<eos>": 0.5, "...": 0.5}
    model = Bigrams({"<start>": {"...": 0.9, "a": 0.1}, "...": word, "a": {"<eos>": 1.0}})
    (found,) = search(model, model.memory(0), [START], SearchOptions(beam=5, n_best=5, max_length=4))
    written = [model.target.decode(hypothesis.tokens) for hypothesis in found]
    assert written[0] == "..."
    assert written.index("a") < written.index("." * 9)


def test_a_loop_leaves_the_race_to_the_others():
    model = Bigrams(STICKY)
    (found,) = search(model, model.memory(0), [START], BEAM)
    assert found[0].ended
    assert texts(model, [found])[0].endswith("abc")
    looping = SearchOptions(beam=1, max_length=60, stop_loops=False)
    assert texts(model, search(model, model.memory(0), [START], looping)) == ["ab" * 30]


def test_a_loop_of_words_is_one_whatever_its_tokens():
    chain = {word: {after: 0.9} for word, after in zip("abcde", [*"bcde", "<eos>"], strict=True)}
    model = Bigrams({"<start>": {"a": 0.9, "f": 0.1}, "f": {"<eos>": 1.0}, **chain})
    model.target = Repeating()
    (found,) = search(model, model.memory(0), [START], SearchOptions(beam=2, n_best=2))
    assert [model.target.decode(hypothesis.tokens) for hypothesis in found] == ["yes", "no No no, NO no!"]
    assert found[0].score < found[1].score
    (cut,) = found_by(model, model.memory(0), GREEDY)
    assert (texts(model, [cut]), cut[0].retried, cut[0].ended) == (["no No no, NO"], "cut", False)


def test_a_search_that_only_loops_is_over_soon_and_has_not_ended():
    model = Bigrams(ENDLESS, PLAIN)
    endless, plain = search(model, model.memory(0, 1), [START], GREEDY)
    assert model.steps < 20
    assert (endless[0].ended, plain[0].ended) == (False, True)
    assert texts(model, [endless, plain]) == ["ab" * 4, "abc"]


def test_full_padding_comes_first():
    model = Bigrams(ENDLESS, PLAIN)
    found = found_by(model, model.memory(0, 1, 0, padded=[1, 0, 1]), fusions=[Wants()])
    assert texts(model, found) == ["abc"] * 3
    assert [hypotheses[0].retried for hypotheses in found] == ["full padding", "", "full padding"]


def test_then_the_model_alone():
    model = Bigrams(PLAIN)
    (found,) = found_by(model, model.memory(0), GREEDY, [Wants("d", "e")])
    assert (texts(model, [found]), found[0].retried, found[0].ended) == (["abc"], "model alone", True)


def test_then_without_repeats():
    model = Bigrams(STICKY)
    for memory in (model.memory(0), model.memory(0, padded=[0])):
        (found,) = found_by(model, memory, GREEDY, [Wants()])
        assert (texts(model, [found]), found[0].retried, found[0].ended) == (["ababc"], "no repeats", True)


def test_then_the_first_round_of_the_loop():
    model = Bigrams(ENDLESS, PLAIN)
    endless, plain = found_by(model, model.memory(0, 1), SearchOptions(beam=1, max_length=20))
    assert (texts(model, [endless, plain]), endless[0].retried, endless[0].ended) == (["ab", "abc"], "cut", False)
    assert plain[0].retried == ""


def test_what_is_only_too_long_stays_as_it_is():
    model = Bigrams(PLAIN)
    (found,) = found_by(model, model.memory(0), SearchOptions(beam=1, max_length=2), [Wants()])
    assert (texts(model, [found]), found[0].retried, found[0].ended) == (["ab"], "", False)


def test_loops_that_are_allowed_are_not_tried_again():
    model = Bigrams(STICKY)
    (found,) = found_by(model, model.memory(0), SearchOptions(beam=1, max_length=30, stop_loops=False))
    assert (texts(model, [found]), found[0].retried) == (["ab" * 15], "")


def test_what_a_sentence_gets_does_not_depend_on_the_others():
    model = Bigrams(PLAIN, ENDLESS, STICKY)
    numbers = [1, 0, 2, 1, 1, 2, 0, 1, 2, 1]
    together = found_by(model, model.memory(*numbers), GREEDY)
    assert together == [found_by(model, model.memory(number), GREEDY)[0] for number in numbers]
