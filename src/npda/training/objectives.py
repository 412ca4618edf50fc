"""What training minimises.

An objective is a module around the parts it trains. From a batch it gives named sums; what each sum is to be
divided by is known before the forward pass, so that the loop can count over all micro-batches of all processes
first, and the gradient does not depend on how an update was cut into batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from npda.audio import SpecAugment
from npda.models.backbone import Backbone, Memory
from npda.training.data import SpeechBatch


class Objective(nn.Module, ABC):
    """loss = Σ weight · sum / count over the terms in ``weights``; other terms are only reported."""

    terms: Sequence[str]  # names of all terms
    weights: Mapping[str, float]  # of the terms that are minimised

    @abstractmethod
    def counts(self, batch: Any) -> dict[str, int]:
        """What the sum of each term is divided by, for instance the target tokens of a batch (on the CPU)."""

    @abstractmethod
    def forward(self, batch: Any) -> dict[str, Tensor]:
        """The sum of each term over the batch, scalars; a term it says nothing about may be missing."""

    def selection(self, means: Mapping[str, float]) -> float:
        """What decides, from the means on the dev data, which checkpoint is best: the lower, the better."""
        return means["nll"]

    def teachers(self) -> Iterable[nn.Module]:
        """Modules that stay in evaluation mode while the others train."""
        return ()

    def train(self, mode: bool = True) -> Objective:
        super().train(mode)
        for module in self.teachers():
            module.eval()
        return self


class SpeechToText(Objective):
    """Recognition or translation of speech, whichever text the batches hold as target.

    backbone: trained; its parameters may be partly frozen
    source_size: pieces of the transcripts' vocabulary, for the CTC loss
    """

    def __init__(
        self,
        backbone: Backbone,
        label_smoothing: float = 0.1,
        ctc_weight: float = 0.0,
        source_size: int | None = None,
        spec_augment: SpecAugment | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.label_smoothing = label_smoothing
        self.spec_augment = spec_augment
        self.terms = ("loss", "nll")
        self.weights = {"loss": 1.0}
        self.ctc = None
        if ctc_weight > 0:
            if source_size is None:
                raise ValueError("the CTC loss needs the size of the transcripts' vocabulary")
            self.terms = ("loss", "nll", "ctc")
            self.weights = {"loss": 1.0, "ctc": ctc_weight}
            self.ctc = nn.Linear(backbone.dim, source_size)

    def counts(self, batch: SpeechBatch) -> dict[str, int]:
        tokens = int((batch.labels != self.backbone.target.pad).sum())
        counts = {"loss": tokens, "nll": tokens}
        if self.ctc is not None:
            counts["ctc"] = int(batch.source_lengths.sum())
        return counts

    def forward(self, batch: SpeechBatch) -> dict[str, Tensor]:
        features = batch.features
        if self.training and self.spec_augment is not None:
            features = self.spec_augment(features, batch.lengths)
        memory = self.backbone.hear(features, batch.lengths)
        states = self.backbone.states(memory, batch.tokens)
        predicted = batch.labels != self.backbone.target.pad
        logits = self.backbone.logits(states[predicted])
        loss, nll = smoothed_cross_entropy(logits, batch.labels[predicted], self.label_smoothing)
        sums = {"loss": loss, "nll": nll}
        if self.ctc is not None:
            sums["ctc"] = ctc_loss(self.ctc, memory, batch, blank=self.backbone.target.pad)
        return sums


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross-entropy and the plain one, summed: (1 − ε)·nll + ε·(mean of −log p), and nll.

    logits: [tokens, vocabulary], labels: [tokens]
    """
    logits = logits.float()
    normalizer = logits.logsumexp(dim=-1)
    nll = (normalizer - logits.gather(1, labels[:, None])[:, 0]).sum()
    spread = (normalizer - logits.mean(dim=-1)).sum()
    return (1 - epsilon) * nll + epsilon * spread, nll.detach()


def ctc_loss(head: nn.Linear, memory: Memory, batch: SpeechBatch, blank: int) -> Tensor:
    """CTC of the transcripts over the encoder's output, summed.

    An utterance too short for its transcript gives 0.
    """
    log_probs = F.log_softmax(head(memory.states).float(), dim=-1).transpose(0, 1)
    lengths = memory.mask.sum(dim=1)
    return F.ctc_loss(
        log_probs,
        batch.source,
        lengths,
        batch.source_lengths,
        blank=blank,
        reduction="sum",
        zero_infinity=True,
    )
