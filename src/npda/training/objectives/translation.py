"""What training minimises.

An objective is a module around the parts it trains. From a batch it gives named sums; what each sum is to be
divided by is known before the forward pass, so that the loop can count over all micro-batches of all processes
first, and the gradient does not depend on how an update was cut into batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from npda.audio import SpecAugment
from npda.models.backbone import Backbone, Memory
from npda.models.language_model import LanguageModel
from npda.training.data.speech import SpeechBatch
from npda.training.data.text import TargetBatch, TextBatch


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
        memory = self.backbone.hear(self.augmented(batch), batch.lengths, batch.tokens)
        return self.written(memory, batch) | self.recognised(memory, batch)

    def augmented(self, batch: SpeechBatch) -> Tensor:
        """The features, masked by SpecAugment in training."""
        if self.training and self.spec_augment is not None:
            return self.spec_augment(batch.features, batch.lengths)
        return batch.features

    def written(self, memory: Memory, batch: SpeechBatch) -> dict[str, Tensor]:
        """The terms of what the decoder writes."""
        states = self.backbone.states(memory, batch.tokens)
        return token_losses(self.backbone, states, batch.labels, self.label_smoothing)

    def recognised(self, memory: Memory, batch: SpeechBatch) -> dict[str, Tensor]:
        """The loss on the transcripts, if it is wanted: CTC on the encoder."""
        if self.ctc is None:
            return {}
        return {"ctc": ctc_loss(self.ctc, memory, batch, blank=self.backbone.target.pad)}


class _Text(Objective):
    """Cross-entropy of what a text model is to write; trains whichever of its parameters are not frozen.

    only: the soft-max is over these tokens, see ``token_losses``
    """

    only: Tensor | None

    def __init__(
        self, model: Backbone | LanguageModel, label_smoothing: float = 0.1, only: Tensor | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.register_buffer("only", only, persistent=False)  # moves with the model
        self.terms = ("loss", "nll")
        self.weights = {"loss": 1.0}

    def counts(self, batch: TextBatch | TargetBatch) -> dict[str, int]:
        tokens = int((batch.labels != self.model.target.pad).sum())
        return {"loss": tokens, "nll": tokens}


class TextToText(_Text):
    """Translation of text: CE_MT of eq. 4."""

    model: Backbone

    def forward(self, batch: TextBatch) -> dict[str, Tensor]:
        memory = self.model.read(batch.source, batch.source_lengths)
        states = self.model.states(memory, batch.tokens)
        return token_losses(self.model, states, batch.labels, self.label_smoothing, self.only)


class NextToken(_Text):
    """Language modelling."""

    model: LanguageModel

    def forward(self, batch: TargetBatch) -> dict[str, Tensor]:
        return token_losses(self.model, self.model.states(batch.tokens), batch.labels, self.label_smoothing)


def token_losses(
    model: Backbone | LanguageModel,
    states: Tensor,
    labels: Tensor,
    label_smoothing: float,
    only: Tensor | None = None,
) -> dict[str, Tensor]:
    """The terms ``loss`` and ``nll``, summed over all that is predicted.

    states: [batch, length, dim]; labels: [batch, length]
    only: [tokens] rising ids, all labels among them; the others, which the data never ask for, cost only time
    """
    predicted = labels != model.target.pad
    logits = model.logits(states[predicted], only)
    loss, nll = smoothed_cross_entropy(logits, columns(labels[predicted], only), label_smoothing)
    return {"loss": loss, "nll": nll}


def columns(labels: Tensor, only: Tensor | None) -> Tensor:
    """Where the labels' scores stand, if there are scores of the tokens ``only``."""
    return labels if only is None else torch.searchsorted(only, labels)


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
