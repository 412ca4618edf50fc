"""Training a model whose decoder can transcribe: it writes down what it hears beside the translation."""

from __future__ import annotations

import torch
from torch import Tensor

from npda.audio import SpecAugment
from npda.models.backbone import Backbone, Memory
from npda.training.data.speech import SpeechBatch
from npda.training.objectives.translation import SpeechToText, token_losses


class TranscribingSpeechToText(SpeechToText):
    """Two texts of one memory: loss and nll are of the target, transcript_loss and transcript_nll of what is said.

    Few hours of speech teach a decoder what is usual long before what is meant; transcripts teach it to listen.

    prompt: that transcripts begin with
    """

    def __init__(
        self,
        backbone: Backbone,
        prompt: list[int],
        transcript_weight: float,
        label_smoothing: float = 0.1,
        spec_augment: SpecAugment | None = None,
    ) -> None:
        super().__init__(backbone, label_smoothing, spec_augment=spec_augment)
        self._prompt = prompt
        self.terms = ("loss", "nll", "transcript_loss", "transcript_nll")
        self.weights = {"loss": 1.0, "transcript_loss": transcript_weight}

    def counts(self, batch: SpeechBatch) -> dict[str, int]:
        transcripts = int(batch.source_lengths.sum()) + len(batch.source_lengths)  # each has an end
        return {**super().counts(batch), "transcript_loss": transcripts, "transcript_nll": transcripts}

    def recognised(self, memory: Memory, batch: SpeechBatch) -> dict[str, Tensor]:
        tokens, labels = self._transcripts(batch)
        states = self.backbone.states(memory, tokens)
        found = token_losses(self.backbone, states, labels, self.label_smoothing)
        return {f"transcript_{name}": value for name, value in found.items()}

    def _transcripts(self, batch: SpeechBatch) -> tuple[Tensor, Tensor]:
        """What the decoder is fed and what should come next, as tokens and labels in SpeechBatch."""
        prompts = torch.tensor(self._prompt, device=batch.source.device).expand(len(batch.source), -1)
        tokens = torch.cat([prompts, batch.source], dim=1)
        pad, first = self.backbone.target.pad, len(self._prompt) - 1
        labels = torch.full_like(tokens, pad)
        labels[:, first:-1] = batch.source
        ends = first + batch.source_lengths
        labels[torch.arange(len(labels), device=labels.device), ends] = self.backbone.target.eos
        return tokens, labels
