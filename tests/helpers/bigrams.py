"""A translator that knows which word follows which, and nothing else: what a search finds can be told by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from npda.models.backbone import Memory, Suppressed

WORDS = ["<pad>", "<eos>", "<start>", " ", "a", "b", "c", "d", "e", "f", "..."]
PAD, EOS, START = range(3)
_RARE, _RARER = 1e-9, 1e-15  # words that are not named, and the end where it is not

# What a sentence is like: word → the words after it and their probabilities.
Follows = Mapping[str, Mapping[str, float]]


class _Words:
    pad, eos = PAD, EOS

    def __len__(self) -> int:
        return len(WORDS)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(WORDS[token] for token in ids if token > START).strip()


class Bigrams:
    """A `Backbone` as far as a search needs one. sentences: by number; a memory of number n sounds like nth."""

    dim = 1
    max_frames = 3000
    max_target = 100

    def __init__(self, *sentences: Follows, suppressed: Suppressed = Suppressed()) -> None:
        self.suppressed = suppressed
        self.target: Any = _Words()
        self.steps = 0
        self._tables = torch.full((len(sentences), len(WORDS), len(WORDS)), math.log(_RARE))
        self._tables[:, :, EOS] = math.log(_RARER)
        for table, follows in zip(self._tables, sentences, strict=True):
            for word, after in follows.items():
                for next_word, probability in after.items():
                    table[WORDS.index(word), WORDS.index(next_word)] = math.log(probability)

    def memory(self, *numbers: int, padded: Sequence[int] | None = None) -> Memory:
        """numbers: what each sentence sounds like; padded: what they sound like with full padding"""
        states = torch.tensor(numbers, dtype=torch.float32).view(-1, 1, 1)
        full = None if padded is None else lambda rows: self.memory(*(padded[row] for row in rows.tolist()))
        return Memory(states, torch.ones(len(numbers), 1, dtype=torch.bool), full)

    def start(self, memory: Memory, beam: int) -> _Stream:
        return _Stream(self, memory.states[:, 0, 0].long(), beam)

    def logits(self, states: Tensor, only: Tensor | None = None) -> Tensor:
        place = states[:, 0].long()
        return self._tables[place // len(WORDS), place % len(WORDS)]


class _Stream:
    def __init__(self, model: Bigrams, sentences: Tensor, beam: int) -> None:
        self.model, self.sentences, self.beam = model, sentences, beam

    def step(self, tokens: Tensor) -> Tensor:
        self.model.steps += 1
        return (self.sentences.repeat_interleave(self.beam) * len(WORDS) + tokens[:, -1])[:, None].float()

    def reorder(self, rows: Tensor) -> None:
        pass

    def keep(self, sentences: Tensor) -> None:
        self.sentences = self.sentences[sentences]
