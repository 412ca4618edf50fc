"""Training with adaptive feature selection: gates on the encoder's frames, and the price of leaving them open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from npda.audio import SpecAugment
from npda.models.layers.feature_selection import FeatureSelection
from npda.models.speech2text import Speech2Text
from npda.training.data.speech import SpeechBatch
from npda.training.objectives.translation import SpeechToText


class SelectiveSpeechToText(SpeechToText):
    """Speech to text whose decoder reads only frames with open gates (Zhang et al. 2020).

    l0 is the share of frames that are expected to be open, kept the share that was; l0_features and kept_features say
    the same of the feature dimensions, where they have gates. The CTC loss is that of all frames.

    l0_weight: of l0 and l0_features; at 0 the gates are frozen, and decide without chance
    """

    backbone: Speech2Text

    def __init__(
        self,
        backbone: Speech2Text,
        l0_weight: float = 0.0,
        label_smoothing: float = 0.1,
        ctc_weight: float = 0.0,
        source_size: int | None = None,
        spec_augment: SpecAugment | None = None,
    ) -> None:
        super().__init__(backbone, label_smoothing, ctc_weight, source_size, spec_augment)
        self._frozen = l0_weight == 0
        penalties = ("l0",) if self._gates.features is None else ("l0", "l0_features")
        self.terms = (*self.terms, *penalties, *(name.replace("l0", "kept") for name in penalties))
        if not self._frozen:
            self.weights = {**self.weights, **dict.fromkeys(penalties, l0_weight)}

    @property
    def _gates(self) -> FeatureSelection:
        if self.backbone.selection is None:
            raise ValueError("the model has no gates to train with")
        return self.backbone.selection

    def teachers(self) -> Iterable[nn.Module]:
        return (self._gates,) if self._frozen else ()

    def selection(self, means: Mapping[str, float]) -> float:
        penalties = (weight * means[name] for name, weight in self.weights.items() if name.startswith("l0"))
        return means["nll"] + sum(penalties)

    def counts(self, batch: SpeechBatch) -> dict[str, int]:
        frames = int(self.backbone.encoded_lengths(batch.lengths).sum())
        counts = {**super().counts(batch), "l0": frames, "kept": frames}
        if self._gates.features is not None:
            counts |= {"l0_features": self._gates.dim, "kept_features": self._gates.dim}
        return counts

    def forward(self, batch: SpeechBatch) -> dict[str, Tensor]:
        memory = self.backbone.encode(self.augmented(batch), batch.lengths, batch.tokens)
        selected = self._gates(memory)
        sums = self.written(selected.memory, batch) | self.recognised(memory, batch)
        sums |= {"l0": selected.expected_frames, "kept": selected.memory.mask.sum()}
        if self._gates.features is not None:
            sums |= {"l0_features": selected.expected_features, "kept_features": selected.open_features}
        return sums
