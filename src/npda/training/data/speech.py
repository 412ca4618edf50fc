"""Speech and its texts as batches of tensors."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from npda import audio
from npda.corpus.manifest import Utterance, within
from npda.io.errors import InputError
from npda.models.backbone import Backbone, Tokens
from npda.training.data.features import FeatureStore

Task = Literal["st", "asr"]  # translate the speech, or write it down


class Data(Protocol):
    """What the loop asks of training or dev data."""

    lengths: Sequence[int]  # of every example, in frames or tokens: batches are planned by them
    dropped: int  # examples left out because they are too long

    def fingerprint(self) -> str:
        """Changes with the content."""
        ...

    def batch(self, indices: Sequence[int]) -> Any:
        """The batch of these examples on the CPU, whatever the objective takes, with ``to(device)``."""
        ...


@dataclass(frozen=True)
class Share(Dataset[list[tuple[int, Any]]]):
    """What one of several processes computes: of every update each n-th micro-batch, with its place."""

    updates: Sequence[Sequence[Sequence[int]]]
    data: Data
    process: int
    processes: int

    def __len__(self) -> int:
        return len(self.updates)

    def __getitem__(self, index: int) -> list[tuple[int, Any]]:
        places = list(enumerate(self.updates[index]))
        return [(place, self.data.batch(indices)) for place, indices in places[self.process :: self.processes]]

    @staticmethod
    def as_is(batches: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """For a DataLoader that has nothing left to collate."""
        return batches


class Distinct(Protocol):
    """Data that know which tokens they ask for."""

    def distinct(self) -> Tensor:
        """Their ids, rising."""
        ...


class Writer(Protocol):
    """What data need to know of a model to tell it what to write: a backbone, or a language model."""

    max_target: int

    @property
    def target(self) -> Tokens: ...

    def prompt(self, language: str | None = None) -> list[int]: ...


class TokenRows:
    """Many sentences of token ids in one array: millions of Python lists would take gigabytes."""

    def __init__(self, rows: Iterable[Sequence[int]] = ()) -> None:
        self._ids, self._ends = array("i"), array("q", [0])
        for row in rows:
            self.append(row)

    def append(self, row: Sequence[int]) -> None:
        self._ids.extend(row)
        self._ends.append(len(self._ids))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Tensor:
        """[length] int64"""
        row = np.frombuffer(self._ids, dtype=np.intc)[self._ends[index] : self._ends[index + 1]]
        return torch.from_numpy(row.astype(np.int64))

    def lengths(self) -> list[int]:
        return np.diff(np.frombuffer(self._ends, dtype=np.int64)).tolist()

    def digest(self) -> str:
        return hashlib.sha256(self._ids.tobytes() + self._ends.tobytes()).hexdigest()

    def distinct(self) -> Tensor:
        """The ids that occur, rising."""
        return torch.from_numpy(np.unique(np.frombuffer(self._ids, dtype=np.intc)).astype(np.int64))


class Targets:
    """What a decoder is to write: prompt, text and end symbol of every sentence."""

    def __init__(self, pad: int, encoded: Iterable[tuple[int, Sequence[int]]] = ()) -> None:
        """encoded: length of the prompt, and all tokens; see ``encode_target``"""
        self.rows = TokenRows()
        self.prompts = array("i")
        self._pad = pad
        for prompt, tokens in encoded:
            self.append(prompt, tokens)

    def append(self, prompt: int, tokens: Sequence[int]) -> None:
        self.prompts.append(prompt)
        self.rows.append(tokens)

    def batch(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """What the decoder is fed and what should come next: tokens and labels as in SpeechBatch."""
        rows = [self.rows[i] for i in indices]
        labels = [row[1:].clone() for row in rows]
        for label, i in zip(labels, indices, strict=True):
            label[: self.prompts[i] - 1] = self._pad  # the prompt is given, not predicted
        return padded([row[:-1] for row in rows], self._pad), padded(labels, self._pad)


def occurring(vocabulary: int, *data: Distinct) -> Tensor | None:
    """The tokens the data ask for, if they are less than half of the vocabulary; None for all."""
    found = torch.unique(torch.cat([each.distinct() for each in data]))
    return found if 2 * len(found) < vocabulary else None


def padded(sequences: list[Tensor], pad: int) -> Tensor:
    return pad_sequence(sequences, batch_first=True, padding_value=pad)


@dataclass(frozen=True)
class SpeechBatch:
    """Right-padded tensors of a batch of utterances.

    features: [batch, frames, bins], lengths: [batch]
    tokens: [batch, length], what the decoder is fed: prompt and text
    labels: [batch, length], what should come next, end symbol included; pad where nothing is to be predicted
    source: [batch, length] transcripts, source_lengths: [batch]; of length 0 where no loss asks for them
    """

    features: Tensor
    lengths: Tensor
    tokens: Tensor
    labels: Tensor
    source: Tensor
    source_lengths: Tensor

    def to(self, device: torch.device) -> SpeechBatch:
        return SpeechBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


class SpeechData:
    """Utterances as a backbone takes them.

    Those that are too long, or whose text is, are left out: ``dropped`` counts them.

    source: vocabulary of the transcripts, given when there is a loss on them
    features: of these utterances; computed by the backbone when not given
    """

    def __init__(
        self,
        utterances: Sequence[Utterance],
        backbone: Backbone,
        task: Task = "st",
        source: Tokens | None = None,
        max_frames: int = audio.MAX_FRAMES,
        features: FeatureStore | None = None,
        progress: bool = False,
    ) -> None:
        short, _ = within(utterances, max_frames)
        texts = [target_tokens(u, backbone, task) for u in short]
        kept = [i for i, (_, text) in enumerate(texts) if len(text) - 1 <= backbone.max_target]
        self.utterances = [short[i] for i in kept]
        self.dropped = len(utterances) - len(self.utterances)
        if not self.utterances:
            raise InputError(
                f"None of the {len(utterances)} utterances can be used: they are longer than {max_frames} "
                f"frames of 10 ms, or their texts than {backbone.max_target} tokens."
            )
        self.lengths: Sequence[int] = [u.n_frames for u in self.utterances]
        self._pad = backbone.target.pad
        self._targets = Targets(self._pad, (texts[i] for i in kept))
        self._sources = TokenRows(source_tokens(u, source) if source is not None else [] for u in self.utterances)
        self._features = features or FeatureStore(self.utterances, backbone.features, progress=progress)

    def __len__(self) -> int:
        return len(self.utterances)

    def fingerprint(self) -> str:
        return fingerprint(self.utterances)

    def batch(self, indices: Sequence[int]) -> SpeechBatch:
        features = [torch.from_numpy(self._features[self.utterances[i]]) for i in indices]
        tokens, labels = self._targets.batch(indices)
        source = [self._sources[i] for i in indices]
        return SpeechBatch(
            features=pad_sequence(features, batch_first=True),
            lengths=torch.tensor([len(f) for f in features]),
            tokens=tokens,
            labels=labels,
            source=padded(source, self._pad),
            source_lengths=torch.tensor([len(s) for s in source]),
        )


def fingerprint(utterances: Sequence[Utterance]) -> str:
    """Changes with the utterances and their order, not with the folder they lie in."""
    digest = hashlib.sha256()
    for u in utterances:
        row = [u.id, Path(u.audio).name, str(u.n_frames), u.tgt_text, u.src_text, u.src_lang, u.tgt_lang]
        digest.update("\t".join(row).encode() + b"\n")
    return digest.hexdigest()


def spoken_and_written(utterances: Sequence[Utterance]) -> tuple[str, ...]:
    """The languages of some utterances, as far as they are named."""
    return tuple(sorted({language for u in utterances for language in (u.src_lang, u.tgt_lang) if language}))


def text_of(utterance: Utterance, task: Task) -> str:
    """What the model should say: the translation, or the transcript."""
    if task == "st":
        return utterance.tgt_text
    if not utterance.src_text.strip():
        raise InputError(f"Utterance {utterance.id!r} has no src_text, which training a recogniser needs.")
    return utterance.src_text


def target_tokens(utterance: Utterance, model: Backbone, task: Task) -> tuple[int, list[int]]:
    """Length of the prompt; prompt, text and end symbol."""
    spoken = model.source_language or utterance.src_lang  # as the model calls it
    language = utterance.tgt_lang if task == "st" else spoken
    return encode_target(text_of(utterance, task), language, model)


def encode_target(text: str, language: str, model: Writer) -> tuple[int, list[int]]:
    """Length of the prompt; prompt, text and end symbol."""
    prompt = model.prompt(language or None)
    return len(prompt), [*prompt, *model.target.encode(text), model.target.eos]


def source_tokens(utterance: Utterance, source: Tokens) -> list[int]:
    """The transcript, without an end symbol."""
    if not utterance.src_text.strip():
        raise InputError(
            f"Utterance {utterance.id!r} has no src_text, which this training needs; "
            "add the transcripts, or set the weight of the loss on them (ctc_weight, transcript_weight) to 0."
        )
    return source.encode(utterance.src_text)
