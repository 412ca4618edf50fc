"""Teach the text path to give the decoder states of the speech path (section 3.1 of the paper, eq. 4).

The base model is frozen, bit for bit. The speech path is the teacher: evaluation mode, no gradient, no SpecAugment;
its states are computed once and kept on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from npda.corpus.manifest import Utterance
from npda.io.errors import InputError
from npda.models.backbone import Backbone
from npda.training.data.speech import Targets, TokenRows, fingerprint, padded, source_tokens, target_tokens
from npda.training.data.subwords import SubwordSampling
from npda.training.data.teacher import TeacherStates
from npda.training.objectives.translation import Objective, columns, smoothed_cross_entropy

# full: MT cross-entropy + MSE of states; the others are the ablations of the paper and of its public code:
# no-mse and mse-only leave a term out, logits compares output-layer scores instead of states,
# embedding-only trains a token embedding and reads through the frozen layers of the speech encoder.
Variant = Literal["full", "no-mse", "mse-only", "logits", "embedding-only"]
VARIANTS: tuple[str, ...] = get_args(Variant)


@dataclass(frozen=True)
class AlignBatch:
    """transcripts, and their tokens: source, source_lengths; tokens, labels: [batch, length] as in SpeechBatch;
    teacher: [batch, length, dim] the speech path's states, 0 where labels are padding"""

    source: Tensor
    source_lengths: Tensor
    tokens: Tensor
    labels: Tensor
    teacher: Tensor
    transcripts: tuple[str, ...] = ()

    def to(self, device: torch.device) -> AlignBatch:
        tensors = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **tensors)


class AlignData:
    """Out-of-domain triplets: transcript, translation, and what the decoder thought while hearing the speech."""

    def __init__(self, utterances: Sequence[Utterance], backbone: Backbone, teacher: TeacherStates) -> None:
        if backbone.source is None:
            raise InputError("The model has no vocabulary of transcripts (source/); the text path needs one.")
        self.utterances = list(utterances)
        self.dropped = 0
        self._pad = backbone.target.pad
        self._targets = Targets(self._pad, (target_tokens(u, backbone, "st") for u in utterances))
        self._sources = TokenRows(source_tokens(u, backbone.source) for u in utterances)
        self._teacher = teacher
        sides = self._sources.lengths(), self._targets.rows.lengths()
        self.lengths: Sequence[int] = [source + target for source, target in zip(*sides, strict=True)]

    def fingerprint(self) -> str:
        return fingerprint(self.utterances)

    def distinct(self) -> Tensor:
        """The target tokens that occur, rising."""
        return self._targets.rows.distinct()

    def batch(self, indices: Sequence[int]) -> AlignBatch:
        source = [self._sources[i] for i in indices]
        tokens, labels = self._targets.batch(indices)
        teacher = []
        for i in indices:
            states = torch.from_numpy(self._teacher[i].astype(np.float32))
            teacher.append(torch.cat([states.new_zeros(self._targets.prompts[i] - 1, states.shape[1]), states]))
        return AlignBatch(
            source=padded(source, self._pad),
            source_lengths=torch.tensor([len(s) for s in source]),
            tokens=tokens,
            labels=labels,
            teacher=pad_sequence(teacher, batch_first=True),
            transcripts=tuple(self.utterances[i].src_text for i in indices),
        )


class Align(Objective):
    """loss = CE_MT + MSE (eq. 4); only the text encoder of the backbone is trained.

    loss and nll are means over target tokens. mse is the squared Euclidean distance of the two states, averaged over
    the target positions of a sentence, then over sentences; cosine is averaged over positions and only reported.

    subwords: cuts the transcripts anew every time, but not those that are evaluated
    mse_weight: 1 in the paper, whose states are small; only: the soft-max is over these tokens, see ``token_losses``
    """

    only: Tensor | None

    def __init__(
        self,
        backbone: Backbone,
        text_encoder: nn.Module,
        variant: Variant,
        label_smoothing: float,
        subwords: SubwordSampling | None = None,
        mse_weight: float = 1.0,
        only: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.text_encoder = text_encoder
        self.variant = variant
        self.label_smoothing = label_smoothing
        self.subwords = subwords
        self.register_buffer("only", only, persistent=False)  # moves with the model
        self.terms = ("loss", "nll", "mse", "cosine")
        weights = {"loss": 1.0, "mse": mse_weight}
        weights.pop({"no-mse": "mse", "mse-only": "loss"}.get(variant, ""), None)
        self.weights = weights
        for module in self.teachers():
            module.requires_grad_(False)
        text_encoder.requires_grad_(True)

    def teachers(self) -> Iterable[nn.Module]:
        assert isinstance(self.backbone, nn.Module)
        return (module for module in self.backbone.children() if module is not self.text_encoder)

    def selection(self, means: Mapping[str, float]) -> float:
        return sum(weight * means["nll" if name == "loss" else name] for name, weight in self.weights.items())

    def counts(self, batch: AlignBatch) -> dict[str, int]:
        tokens = int((batch.labels != self.backbone.target.pad).sum())
        counts = {"mse": len(batch.labels), "cosine": tokens}
        return {"loss": tokens, "nll": tokens, **counts} if self._spells else counts

    @property
    def _spells(self) -> bool:
        """Whether scores of the vocabulary are computed; in training by the distance they would only be looked at."""
        return not (self.training and self.variant == "mse-only")

    def forward(self, batch: AlignBatch) -> dict[str, Tensor]:
        memory = self.backbone.read(*self._source(batch))
        predicted = batch.labels != self.backbone.target.pad
        states, taught = self.backbone.states(memory, batch.tokens)[predicted], batch.teacher[predicted]
        lengths = predicted.sum(dim=1, keepdim=True).expand_as(predicted)[predicted]
        cosine = torch.cosine_similarity(states, taught, dim=-1).sum().detach()
        if not self._spells:
            return {"mse": ((states - taught).square().sum(dim=-1) / lengths).sum(), "cosine": cosine}
        logits = self.backbone.logits(states, self.only)
        loss, nll = smoothed_cross_entropy(logits, columns(batch.labels[predicted], self.only), self.label_smoothing)
        apart = logits - self.backbone.logits(taught, self.only) if self.variant == "logits" else states - taught
        return {"loss": loss, "nll": nll, "mse": (apart.square().sum(dim=-1) / lengths).sum(), "cosine": cosine}

    def _source(self, batch: AlignBatch) -> tuple[Tensor, Tensor]:
        """What the text path reads, and how long it is."""
        if self.subwords is None or not self.training:
            return batch.source, batch.source_lengths
        drawn = [torch.tensor(ids) for ids in self.subwords(batch.transcripts)]
        lengths = torch.tensor([len(ids) for ids in drawn])
        return padded(drawn, self.backbone.target.pad).to(batch.source), lengths.to(batch.source)
