"""Who tells speech from silence, frame by frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from npda.audio import SAMPLE_RATE

FRAME = 512  # samples, 32 ms: what silero-vad hears at a time

_MEMORY = 30 * SAMPLE_RATE // FRAME  # frames whose loudness is compared
_SILENCE = -60.0  # dB below full scale; nobody speaks so softly
_PROMINENCE = 6.0  # dB; the loudness of steady noise varies by less


class Detector(Protocol):
    """Hears one recording from its beginning to its end."""

    name: str

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """How probable speech is. frames: [n, 512] that follow those of the last call → [n] from 0 to 1"""
        ...


def best_detector() -> Detector:
    """silero-vad if it is installed, else loudness."""
    return Silero() if has_silero() else Loudness()


@cache
def has_silero() -> bool:
    return find_spec("silero_vad") is not None


class Silero:
    """The network of the package silero-vad, which has learnt what speech sounds like."""

    name = "silero-vad"

    def __init__(self) -> None:
        with _one_thread():  # which its import sets for everybody
            from silero_vad import load_silero_vad

            self._model: Any = load_silero_vad()

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        import torch

        with torch.inference_mode(), _one_thread():
            found = [self._model(frame, SAMPLE_RATE) for frame in torch.from_numpy(frames)]
            return torch.cat(found).flatten().numpy() if found else np.empty(0, np.float32)


@contextmanager
def _one_thread() -> Iterator[None]:
    """A frame is so little work that several threads mostly wait for each other: dozens of times longer when busy."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
