"""Held-out sentences on their way into a decoder, by speech or by text, as tuning and comparing need them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from npda import audio
from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.retry import search_with_retry
from npda.io.errors import InputError
from npda.models.backbone import Backbone, Memory
from npda.models.batches import cut
from npda.models.inputs import hear_batch, read_batch, token_rows

Way = Literal["speech", "text"]  # into the decoder: ``hear`` or ``read``

_BATCH = {"speech": 16_000, "text": 2_048}  # padded frames, or tokens of the longer side
_SENTENCES = 64  # in a batch; times the beam, times the vocabulary, they fill memory
_KEPT_BYTES = 2**29  # of encoder output held for the next pass; what is beyond is computed again


@dataclass(frozen=True)
class DevSentence:
    """A sentence as the model takes it.

    source: ids of the transcript, empty on the way of speech; prompt: what its target begins with;
    target: the reference and its end symbol; length: what fills a batch
    """

    sentence: Utterance | Pair
    source: tuple[int, ...]
    prompt: tuple[int, ...]
    target: tuple[int, ...]
    length: int


@dataclass(frozen=True)
class Batch:
    """places: of its sentences in ``DevSet.examples``; all share a prompt"""

    places: tuple[int, ...]
    prompt: tuple[int, ...]


class DevSet:
    """Sentences that go one way into the decoder; those the model has no room for are left out and counted.

    Speech needs utterances; text takes pairs, and utterances with their transcripts.

    language: target language of sentences that do not name one themselves
    """

    def __init__(
        self, backbone: Backbone, sentences: Sequence[Utterance | Pair], way: Way, language: str | None = None
    ) -> None:
        if way == "text" and backbone.source is None:
            raise InputError("The model has no vocabulary for transcripts, so it cannot read text: see `npda align`.")
        self.backbone = backbone
        self.way: Way = way
        found = [_example(backbone, sentence, way, language) for sentence in sentences]
        self.examples = [example for example in found if example is not None]
        self.skipped = len(found) - len(self.examples)
        if not self.examples:
            raise InputError(f"None of the {len(found)} dev sentences fits the model: they are empty or too long.")
        self.batches = list(_batches(self.examples, _BATCH[way]))
        self._kept: dict[Batch, Memory] = {}
        self._room = _KEPT_BYTES

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def references(self) -> list[str]:
        return [example.sentence.tgt_text for example in self.examples]

    @torch.inference_mode()
    def memory(self, batch: Batch) -> Memory:
        """What the encoder makes of a batch; kept for the next time as far as there is room."""
        if batch in self._kept:
            return self._kept[batch]
        examples = [self.examples[place] for place in batch.places]
        memory = self._hear(examples) if self.way == "speech" else self._read(examples)
        self._room -= memory.states.nbytes
        if self._room >= 0:
            self._kept[batch] = memory
        return memory

    @torch.inference_mode()
    def states(self, batch: Batch, memory: Memory) -> list[Tensor]:
        """The decoder state before every target token, end symbol included: [positions, dim] for each sentence."""
        targets = [self.examples[place].target for place in batch.places]
        fed = [[*batch.prompt, *target[:-1]] for target in targets]
        tokens = token_rows(self.backbone, fed, self.backbone.target.pad)
        first = len(batch.prompt) - 1  # the last token of the prompt predicts the first of the target
        rows = self.backbone.states(memory, tokens)
        return [row[first : first + len(target)] for row, target in zip(rows, targets, strict=True)]

    def translations(
        self, options: SearchOptions, fusions: Sequence[Fusion] = (), advance: Callable[[int], None] = lambda _: None
    ) -> list[str]:
        """The model's translation of every sentence; ``advance`` is called with how many are done."""
        texts = [""] * len(self)
        for batch in self.batches:
            found = search_with_retry(self.backbone, self.memory(batch), batch.prompt, options, fusions)
            for place, hypotheses in zip(batch.places, found, strict=True):
                texts[place] = self.backbone.target.decode(hypotheses[0].tokens)
            advance(len(batch.places))
        return texts

    def part(self, places: Sequence[int]) -> DevSet:
        """Some of the sentences, in the order of their places."""
        other = copy.copy(self)
        other.examples = [self.examples[place] for place in places]
        other.batches = list(_batches(other.examples, _BATCH[self.way]))
        other._kept = {}
        return other

    def along(self, texts: Sequence[str]) -> DevSet:
        """The same sentences with other targets, and with what the encoder has already made of them.

        texts: as ``translations`` gives them
        """
        other = copy.copy(self)
        eos, target = self.backbone.target.eos, self.backbone.target
        other.examples = [
            replace(example, target=(*target.encode(text), eos)[: self.backbone.max_target - len(example.prompt)])
            for example, text in zip(self.examples, texts, strict=True)
        ]
        return other

    def _hear(self, examples: Sequence[DevSentence]) -> Memory:
        heard = []
        for example in examples:
            assert isinstance(example.sentence, Utterance)
            features = self.backbone.features(audio.load(example.sentence.audio))
            if len(features) > self.backbone.max_frames:
                raise InputError(
                    f"{example.sentence.audio} has {len(features)} frames, its manifest says "
                    f"{example.sentence.n_frames} and the model takes {self.backbone.max_frames}: correct n_frames."
                )
            heard.append(features)
        return hear_batch(self.backbone, heard, torch.tensor([example.prompt for example in examples]))

    def _read(self, examples: Sequence[DevSentence]) -> Memory:
        return read_batch(self.backbone, [example.source for example in examples])


def _example(backbone: Backbone, sentence: Utterance | Pair, way: Way, language: str | None) -> DevSentence | None:
    prompt = tuple(backbone.prompt(sentence.tgt_lang or language))
    target = (*backbone.target.encode(sentence.tgt_text), backbone.target.eos)
    if len(prompt) + len(target) - 1 > backbone.max_target:
        return None
    if way == "speech":
        if not isinstance(sentence, Utterance):
            raise ValueError("only utterances can be heard")
        if sentence.n_frames > backbone.max_frames:
            return None
        return DevSentence(sentence, (), prompt, target, sentence.n_frames)
    assert backbone.source is not None
    source = tuple(backbone.source.encode(sentence.src_text))
    return DevSentence(sentence, source, prompt, target, max(len(source), len(target))) if source else None


def _batches(examples: Sequence[DevSentence], limit: int) -> Iterator[Batch]:
    """Sentences of one prompt and of similar length."""
    lengths = [example.length for example in examples]
    order = sorted(range(len(examples)), key=lambda place: (examples[place].prompt, lengths[place]))
    for prompt, places in groupby(order, key=lambda place: examples[place].prompt):
        yield from (Batch(tuple(batch), prompt) for batch in cut(places, lengths, limit, _SENTENCES))
