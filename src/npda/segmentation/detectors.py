"""Who tells speech from silence, frame by frame."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from npda.audio import SAMPLE_RATE

FRAME = 512  # samples, 32 ms: what silero-vad hears at a time

_MEMORY = 30 * SAMPLE_RATE // FRAME  # frames whose loudness is compared
_SILENCE = -60.0  # dB below full scale; no speech is so soft
_SPOKEN, _LEAST = 0.5, 3  # probability of a frame, and how many of them are speech
_LOOKED_AT = 4 * SAMPLE_RATE // FRAME  # frames looked at together
_PROMINENCE = 6.0  # dB; the loudness of steady noise varies by less


class Detector(Protocol):
    """Hears one recording from its beginning to its end."""

    name: str

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """How probable speech is. frames: [n, 512] that follow those of the last call → [n] from 0 to 1"""
        ...


def best_detector() -> Detector:
    """silero-vad if it is installed, else loudness."""
    if not has_silero():
        return Loudness()
    from npda.segmentation.silero import Silero

    return Silero()


def holds_speech(waveform: np.ndarray, detector: Detector) -> bool:
    """Whether anybody says anything in a whole recording; what is shorter than a tenth of a second is a click.

    waveform: [samples] float32 at 16 kHz; detector: a fresh one
    """
    padded = np.pad(waveform, (0, -len(waveform) % FRAME)).reshape(-1, FRAME)
    spoken = 0
    for start in range(0, len(padded), _LOOKED_AT):
        spoken += int((detector(padded[start : start + _LOOKED_AT]) >= _SPOKEN).sum())
        if spoken >= _LEAST:  # mostly within the first seconds
            return True
    return False


@cache
def has_silero() -> bool:
    return find_spec("silero_vad") is not None


class Loudness:
    """Speech is what stands out from the softest tenth of the last half minute.

    Needs nothing installed and serves for a clear recording with silent pauses. Music, applause and doors are speech
    to it, and soft speech in loud noise is not.
    """

    name = "loudness"

    def __init__(self) -> None:
        self._recent = np.empty(0)

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        levels = decibels(frames)
        self._recent = np.concatenate([self._recent, levels])[-_MEMORY:]
        if len(levels) == 0:
            return levels
        soft, loud = np.percentile(self._recent, (10, 95))
        # A third of the way up: above breath and room, below the weak ends of words.
        threshold = max(_SILENCE, soft + max(_PROMINENCE, (loud - soft) / 3))
        return (levels > threshold).astype(np.float32)


def decibels(frames: np.ndarray) -> np.ndarray:
    """Loudness below full scale. frames: [n, 512] → [n], -100 for digital silence"""
    return 10 * np.log10(np.square(frames, dtype=np.float64).mean(axis=1) + 1e-10)
