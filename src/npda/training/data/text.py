"""Text without speech as batches of tensors: pairs to translate, and sentences for a language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from npda.corpus.pairs import Pair, stream_pairs
from npda.io.errors import InputError
from npda.io.files import stream_lines
from npda.models.backbone import Backbone
from npda.models.text2text import MAX_SOURCE
from npda.training.data.speech import Targets, TokenRows, Writer, encode_target, padded


@dataclass(frozen=True)
class TextBatch:
    """source: [batch, length] and source_lengths: [batch]; tokens, labels: [batch, length] as in SpeechBatch"""

    source: Tensor
    source_lengths: Tensor
    tokens: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> TextBatch:
        return TextBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


@dataclass(frozen=True)
class TargetBatch:
    """tokens, labels: [batch, length] as in SpeechBatch"""

    tokens: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> TargetBatch:
        return TargetBatch(self.tokens.to(device), self.labels.to(device))


class TextData:
    """Pairs as ``read`` takes them; of a batch, the tokens of both sides count."""

    def __init__(self, pairs: Iterable[Pair], backbone: Backbone) -> None:
        if backbone.source is None:
            raise InputError("The model has no vocabulary of transcripts (source/), so it cannot read text.")
        self.dropped = 0
        self._pad = backbone.source.pad
        self._targets = Targets(backbone.target.pad)
        self._sources = TokenRows()
        for pair in pairs:
            source = backbone.source.encode(pair.src_text)
            prompt, target = encode_target(pair.tgt_text, pair.tgt_lang, backbone)
            if source and len(source) <= MAX_SOURCE and len(target) - 1 <= backbone.max_target:
                self._sources.append(source)
                self._targets.append(prompt, target)
            else:
                self.dropped += 1
        _check(len(self._sources), self.dropped)
        sides = self._sources.lengths(), self._targets.rows.lengths()
        self.lengths: Sequence[int] = [source + target for source, target in zip(*sides, strict=True)]

    def __len__(self) -> int:
        return len(self._sources)

    def fingerprint(self) -> str:
        return self._sources.digest() + self._targets.rows.digest()

    def distinct(self) -> Tensor:
        """The target tokens that occur, rising."""
        return self._targets.rows.distinct()

    def batch(self, indices: Sequence[int]) -> TextBatch:
        source = [self._sources[i] for i in indices]
        lengths = torch.tensor([len(row) for row in source])
        return TextBatch(padded(source, self._pad), lengths, *self._targets.batch(indices))


class TargetData:
    """Sentences for a language model. sentences: (text, language), the language empty where there are no tags"""

    def __init__(self, sentences: Iterable[tuple[str, str]], model: Writer) -> None:
        self.dropped = 0
        self._targets = Targets(model.target.pad)
        for text, language in sentences:
            prompt, target = encode_target(text, language, model)
            if len(target) - 1 <= model.max_target:
                self._targets.append(prompt, target)
            else:
                self.dropped += 1
        _check(len(self._targets.rows), self.dropped)
        self.lengths: Sequence[int] = self._targets.rows.lengths()

    def __len__(self) -> int:
        return len(self._targets.rows)

    def fingerprint(self) -> str:
        return self._targets.rows.digest()

    def batch(self, indices: Sequence[int]) -> TargetBatch:
        return TargetBatch(*self._targets.batch(indices))


def read_texts(files: Sequence[str | Path]) -> Iterator[Pair]:
    """The pairs of all files: TSV as in ``npda.corpus.pairs``, manifests with transcripts included."""
    for file in files:
        yield from stream_pairs(file)


def read_sources(files: Sequence[str | Path]) -> Iterator[str]:
    """The source side of TSVs, and every line of other text files."""
    for file in files:
        if str(file).endswith((".tsv", ".tsv.gz")):
            yield from (pair.src_text for pair in stream_pairs(file))
        else:
            yield from (line for line in stream_lines(file) if line.strip())


def read_targets(files: Sequence[str | Path]) -> Iterator[tuple[str, str]]:
    """The target side of TSVs, and every line of other text files, which name no language."""
    for file in files:
        if str(file).endswith((".tsv", ".tsv.gz")):
            yield from ((pair.tgt_text, pair.tgt_lang) for pair in stream_pairs(file))
        else:
            yield from ((line, "") for line in stream_lines(file) if line.strip())


def _check(kept: int, dropped: int) -> None:
    if not kept:
        raise InputError(f"None of the {dropped} sentences can be used: they are empty or too long for the model.")
