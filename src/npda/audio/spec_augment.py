"""SpecAugment: random masks over features, so that training does not rely on any one band or moment."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SpecAugment:
    """Masks random bands and stretches of the features (Park et al. 2019, without time warping)."""

    freq_masks: int = 1
    freq_width: int = 27  # a mask is narrower than this
    time_masks: int = 1
    time_width: int = 100  # a mask is shorter than this
    time_ratio: float = 1.0  # and than this share of the utterance

    @classmethod
    def lb(cls) -> "SpecAugment":
        """LibriSpeech basic."""
        return cls(freq_masks=1, freq_width=27, time_masks=1, time_width=100, time_ratio=1.0)

    @classmethod
    def ld(cls) -> "SpecAugment":
        """LibriSpeech double."""
        return cls(freq_masks=2, freq_width=27, time_masks=2, time_width=100, time_ratio=1.0)

    @classmethod
    def sm(cls) -> "SpecAugment":
        """Switchboard mild."""
        return cls(freq_masks=2, freq_width=15, time_masks=2, time_width=70, time_ratio=0.2)

    @classmethod
    def ss(cls) -> "SpecAugment":
        """Switchboard strong."""
        return cls(freq_masks=2, freq_width=27, time_masks=2, time_width=70, time_ratio=0.2)

    def __call__(self, features: "Tensor", lengths: "Tensor") -> "Tensor":
        """A copy of padded features [batch, frames, 80] with zeros, the mean after CMVN, in the masks.

        lengths: [batch]; padding is left alone. The draws come from torch's default generator on the CPU, so
        that a seed gives the same masks on every device.
        """
        import torch

        batch, frames, bins = features.shape
        lengths = lengths.to("cpu", torch.float64)
        bands = _stretches(
            self.freq_masks, torch.full((batch,), float(self.freq_width)), torch.full((batch,), bins), bins
        )
        limit = (lengths * self.time_ratio).floor().clamp(max=self.time_width)
        times = _stretches(self.time_masks, limit, lengths, frames)
        heard = torch.arange(frames) < lengths[:, None]
        masked = heard[:, :, None] & (bands[:, None, :] | times[:, :, None])
        return features.masked_fill(masked.to(features.device), 0.0)


def _stretches(count: int, limits: "Tensor", lengths: "Tensor", size: int) -> "Tensor":
    """Mark `count` random stretches per row, each shorter than limits [batch], within lengths [batch].

    Returns [batch, size] bool. Drawn in double precision: rounding must not reach the limit itself.
    """
    import torch

    draws = torch.rand(2, len(limits), count, dtype=torch.float64)
    widths = (draws[0] * limits[:, None]).floor()
    starts = (draws[1] * (lengths[:, None] - widths + 1)).floor()
    places = torch.arange(size)
    inside = (places >= starts[..., None]) & (places < (starts + widths)[..., None])
    return inside.any(dim=1)
