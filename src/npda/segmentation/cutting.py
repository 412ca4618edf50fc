"""From the probability of speech, frame by frame, to stretches of speech that a model takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from npda.audio import SAMPLE_RATE
from npda.segmentation.detectors import FRAME, Detector, decibels

_SECOND = SAMPLE_RATE / FRAME  # frames


@dataclass(frozen=True)
class Pauses:
    """Where a recording is cut; times in seconds."""

    pause: float = 0.6  # silence that ends a stretch; over a shorter one speech goes on
    padding: float = 0.3  # silence kept on both sides: in noise, detectors miss the first sound or two
    longest: float = 30.0  # stretch, padding included
    whole: float = 0.5  # share of the longest stretch that is never cut
    shortest: float = 0.1  # speech; what is shorter is a click
    begins: float = 0.5  # probability at which speech begins
    ends: float = 0.35  # and below which it ends

    def __post_init__(self) -> None:
        if not 0 <= 2 * self.padding <= self.pause:
            raise ValueError(f"a pause of {self.pause} s has no room for {self.padding} s of silence on both sides")
        if not self.longest >= 2 * self.padding + 1:
            raise ValueError(f"a stretch of at most {self.longest} s has no room for a second of speech")
        if not 0 <= self.whole <= 0.9:
            raise ValueError(f"a share of {self.whole} of a stretch cannot be kept whole; at most 0.9 can")
        if not 0 <= self.ends <= self.begins <= 1:
            raise ValueError(f"speech cannot begin at {self.begins} and end below {self.ends}")


@dataclass(frozen=True, eq=False)
class Stretch:
    """Speech from `start` to `end`, in seconds of the recording.

    samples: [n] float32 at 16 kHz, with a little of the silence before and after; first: of them, counted in samples of
    the recording
    """

    start: float
    end: float
    samples: np.ndarray
    first: int = 0


class Cutter:
    """Hears a recording block by block, and keeps of it what belongs to the stretch that is being spoken.

    All places are counted in frames from the beginning of the recording.
    """

    def __init__(self, detector: Detector, pauses: Pauses = Pauses()) -> None:
        self._detector = detector
        self._pauses = pauses
        self._pause = max(1, round(pauses.pause * _SECOND))
        self._padding = min(round(pauses.padding * _SECOND), self._pause // 2)
        self._longest = int(pauses.longest * _SECOND) - 2 * self._padding
        self._kept = np.empty(0, np.float32)  # samples from the frame `_first` on
        self._first = 0
        self._heard = 0  # frames that were looked at
        self._speaking = False
        self._start = 0  # of the stretch that is being spoken
        self._spoken: list[bool] = []  # its frames so far, the first of them speech; empty in a pause
        self._silent = 0  # frames since the last speech in it
        self._last_end = -self._pause  # of the stretch before

    def hear(self, block: np.ndarray) -> Iterator[Stretch]:
        """The stretches that end in the next block of the recording, [samples] of any number."""
        self._kept = np.concatenate([self._kept, block])
        ready = (self._heard - self._first) * FRAME
        whole = (len(self._kept) - ready) // FRAME * FRAME
        for probability in self._detector(self._kept[ready : ready + whole].reshape(-1, FRAME)):
            self._speaking = bool(probability >= (self._pauses.ends if self._speaking else self._pauses.begins))
            yield from self._frame()
        # Only what is spoken now, and the silence that may become its padding, is needed again.
        needed = max(self._first, (self._start if self._spoken else self._heard) - self._padding)
        self._kept = self._kept[(needed - self._first) * FRAME :]
        self._first = needed

    def speaking(self) -> Stretch | None:
        """The stretch that is being spoken as far as it was heard, None in a pause or if it may be a click.

        Once its padding was heard, it is what ``hear`` will hand over if nothing more is said.
        """
        end = len(self._spoken) - self._silent
        if not self._spoken or end / _SECOND < self._pauses.shortest:
            return None
        right = min(self._start + end + self._padding, self._heard)
        first, samples = self._samples(self._left(), right)
        return Stretch(self._start / _SECOND, (self._start + end) / _SECOND, samples, first)

    @property
    def whole(self) -> float:
        """Seconds from the start of a stretch before which it is never cut."""
        return int(self._longest * self._pauses.whole) / _SECOND

    @property
    def settled(self) -> bool:
        """Whether there is speech now, and all of it that will be handed over if nothing more follows."""
        return self._silent >= max(1, self._padding)

    def finish(self) -> Iterator[Stretch]:
        """The stretch that was being spoken when the recording ended."""
        end = self._first * FRAME + len(self._kept)
        yield from self.hear(np.zeros(-len(self._kept) % FRAME, np.float32))
        self._kept = self._kept[: end - self._first * FRAME]
        if self._spoken:
            end = len(self._spoken) - self._silent
            yield from self._close(end, end + 2 * self._padding)

    def _frame(self) -> Iterator[Stretch]:
        if not self._spoken:
            self._start = self._heard
        if self._speaking or self._spoken:
            self._spoken.append(self._speaking)
            self._silent = 0 if self._speaking else self._silent + 1
        self._heard += 1
        if self._silent >= self._pause:
            yield from self._close(len(self._spoken) - self._silent, len(self._spoken))
        elif len(self._spoken) >= self._longest:
            yield from self._close(*self._best_cut())

    def _close(self, end: int, resume: int) -> Iterator[Stretch]:
        """Hand over the frames before `end`, and go on speaking at `resume`; both count from the stretch's start."""
        start, end, resume = self._start, self._start + end, self._start + resume
        left = self._left()
        right = min(end + self._padding, (end + resume) // 2)
        if (end - start) / _SECOND >= self._pauses.shortest:
            first, samples = self._samples(left, right)
            total = self._first * FRAME + len(self._kept)
            yield Stretch(start / _SECOND, min(end * FRAME, total) / SAMPLE_RATE, samples, first)
            self._last_end = end
        self._spoken = self._spoken[resume - start :]
        self._silent = self._silent if self._spoken else 0
        self._start = resume

    def _left(self) -> int:
        """Where the silence begins that is kept before the stretch."""
        return max(self._start - self._padding, (self._last_end + self._start + 1) // 2)

    def _best_cut(self) -> tuple[int, int]:
        """Where to cut speech that goes on for too long: (end, resume), behind what is kept whole.

        In the longest pause there, or where there is none, in the quietest tenth of a second.
        """
        whole = int(len(self._spoken) * self._pauses.whole)
        place, pauses = 0, []
        for speech, run in groupby(self._spoken):
            length = len(list(run))
            if not speech and place + length > whole:
                pauses.append((length, place))
            place += length
        if pauses:
            length, place = max(pauses)
            return place, place + length
        frames = self._samples(self._start + whole, self._heard)[1].reshape(-1, FRAME)
        levels = np.convolve(decibels(frames), np.ones(3), mode="valid")
        quietest = whole + 1 + int(levels.argmin())
        return quietest, quietest

    def _samples(self, start: int, end: int) -> tuple[int, np.ndarray]:
        """A copy, so that the block it comes from can go. → its place, and [(end - start) * 512], fewer at the
        recording's end"""
        start = max(start, self._first)
        return start * FRAME, self._kept[(start - self._first) * FRAME : (end - self._first) * FRAME].copy()
