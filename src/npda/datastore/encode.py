"""Sentences to entries: one pass of the decoder over every target gives its keys and values (section 2.2).

The key of a position is the decoder state that predicts its token, the value is that token; the end symbol is a
token like any other. The output layer is never computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from npda import audio
from npda.corpus.manifest import Utterance
from npda.datastore.projection import Projection
from npda.datastore.shards import Chunk
from npda.datastore.source import Sentence
from npda.io.errors import InputError
from npda.models.backbone import Backbone, Memory
from npda.models.batches import cut
from npda.models.devices import device_of
from npda.models.inputs import hear_batch, read_batch, token_rows

BATCH_TOKENS = 1_024  # padded tokens of a batch, the longer of its two sides; more do not fit a processor's caches
ACCELERATED_TOKENS = 8_192  # of a batch on any other device
BATCH_FRAMES = 16_000  # padded frames of a batch of speech


@dataclass(frozen=True)
class _Prepared:
    """A sentence ready for the model. tokens: prompt, target and end symbol; length: what fills a batch"""

    sentence: Sentence
    source: list[int]
    tokens: list[int]
    prompt: int
    length: int


class Encoder:
    """Turns chunks of sentences into entries: pairs through ``read``, utterances through ``hear``.

    language: target language of sentences that do not name one themselves; projection: of states to keys, if any
    """

    def __init__(self, backbone: Backbone, language: str | None = None, projection: Projection | None = None) -> None:
        self._backbone = backbone
        self._language = language
        self._projection = projection
        self._dim = backbone.dim if projection is None else projection.dim
        self._device = device_of(backbone)
        self._prompts: dict[tuple[int, ...], str] = {}  # what targets begin with → the language that is so begun

    def encode(self, sentences: Sequence[Sentence]) -> tuple[Chunk, int]:
        """The entries of a chunk in the order of its sentences, and how many sentences the model has no room for."""
        prepared = [item for sentence in sentences if (item := self._prepare(sentence)) is not None]
        sizes = np.array([len(item.tokens) - item.prompt for item in prepared], dtype=np.int64)
        ends = np.cumsum(sizes)
        keys = np.empty((int(sizes.sum()), self._dim), dtype=np.float16)
        room = BATCH_TOKENS if self._device.type == "cpu" else ACCELERATED_TOKENS
        for batch in _batches(prepared, room):
            states = self._states([prepared[index] for index in batch]).float().cpu().numpy()
            for index, rows in zip(batch, states, strict=True):
                start = prepared[index].prompt - 1  # the prompt's last token predicts the first of the target
                found = rows[start : start + sizes[index]]
                keys[ends[index] - sizes[index] : ends[index]] = self._projection(found) if self._projection else found
        if not np.isfinite(keys).all():
            raise InputError(
                "The model's decoder states do not fit into 16 bits (infinite or no number): "
                "the weights are damaged or of another scale."
            )
        values = [token for item in prepared for token in item.tokens[item.prompt :]]
        chunk = Chunk(
            keys=keys,
            values=np.array(values, dtype=np.int32),
            sentences=np.repeat(np.arange(len(prepared), dtype=np.int32), sizes),
            positions=np.concatenate([np.arange(size, dtype=np.int32) for size in [0, *sizes]]),
            texts=[(item.sentence.src_text, item.sentence.tgt_text) for item in prepared],
        )
        return chunk, len(sentences) - len(prepared)

    def _prepare(self, sentence: Sentence) -> _Prepared | None:
        backbone = self._backbone
        language = sentence.tgt_lang or self._language
        prompt = backbone.prompt(language)
        if language and (known := self._prompts.setdefault(tuple(prompt), language)) != language:
            raise InputError(
                f"The sentences are translated into {known} and into {language}, and the model writes one language "
                "only: take those of its own."
            )
        tokens = [*prompt, *backbone.target.encode(sentence.tgt_text), backbone.target.eos]
        if len(tokens) - 1 > backbone.max_target:
            return None
        if isinstance(sentence, Utterance):
            fits = sentence.n_frames <= backbone.max_frames
            return _Prepared(sentence, [], tokens, len(prompt), sentence.n_frames) if fits else None
        if backbone.source is None:
            raise InputError("The model has no vocabulary for transcripts, so it cannot read text: see `npda align`.")
        source = backbone.source.encode(sentence.src_text)
        return _Prepared(sentence, source, tokens, len(prompt), max(len(source), len(tokens))) if source else None

    @torch.inference_mode()
    def _states(self, batch: Sequence[_Prepared]) -> Tensor:
        """→ [batch, length, dim]"""
        tokens = token_rows(self._backbone, [item.tokens[:-1] for item in batch], self._backbone.target.pad)
        return self._backbone.states(self._memory(batch, tokens), tokens)

    def _memory(self, batch: Sequence[_Prepared], targets: Tensor) -> Memory:
        if isinstance(batch[0].sentence, Utterance):
            return hear_batch(self._backbone, [self._features(item.sentence) for item in batch], targets)
        return read_batch(self._backbone, [item.source for item in batch])

    def _features(self, utterance: Sentence) -> np.ndarray:
        assert isinstance(utterance, Utterance)
        features = self._backbone.features(audio.load(utterance.audio))
        if len(features) > self._backbone.max_frames:
            raise InputError(
                f"{utterance.audio} has {len(features)} frames, its manifest says {utterance.n_frames} "
                f"and the model takes {self._backbone.max_frames}: correct n_frames, or cut it into sentences."
            )
        return features


def _batches(prepared: Sequence[_Prepared], room: int) -> list[list[int]]:
    """Places of sentences of similar length; those of a chunk are all spoken or all written. room: tokens of a batch"""
    lengths = [item.length for item in prepared]
    order = sorted(range(len(prepared)), key=lambda place: (lengths[place], len(prepared[place].tokens)))
    spoken = bool(prepared) and isinstance(prepared[0].sentence, Utterance)
    return cut(order, lengths, BATCH_FRAMES if spoken else room)
