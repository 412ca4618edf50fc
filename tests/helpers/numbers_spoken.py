"""A speaker, an ear and a translator whose words are numbers: whatever is said can be told from the samples."""

import asyncio
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from npda.segmentation.detectors import FRAME
from npda.serving.errors import Refusal
from npda.terms.replacing import Replacement

SECOND = 16_000 / FRAME  # frames
SILENCE = 0.0
LOUDNESS = 4096  # a word's number is so many times its samples, which 16 bits hold exactly


@dataclass(frozen=True)
class Spoken:
    text: str
    tokens: tuple[int, ...] = ()
    terms: tuple[Replacement, ...] = ()
    stores: tuple[tuple[str, float], ...] = ()


class Scripted:
    """Hears speech where a frame is not silent."""

    name = "script"

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        return (frames.max(axis=1) > SILENCE).astype(np.float32) if len(frames) else np.empty(0)


def decode(tokens) -> str:
    return " ".join(f"w{token}" for token in tokens)


def speech(*words: tuple[int, int]) -> np.ndarray:
    """Words by (number, frames); number 0 is silence."""
    return np.concatenate([np.full(frames * FRAME, number / LOUDNESS, np.float32) for number, frames in words])


def said(samples: np.ndarray) -> list[int]:
    """The words in a piece of speech."""
    return [round(number * LOUDNESS) for number, _ in groupby(samples[::FRAME]) if number != SILENCE]


@dataclass
class Reader:
    """Reads the words off the samples. It is not sure of the last ones as long as the sentence has not ended.

    took: seconds of each call in turn, of the captions' clock; wrong: words at the end that are misread;
    refused: calls that are refused, by their number
    """

    took: float = 0.1
    wrong: int = 1
    refused: dict[int, int] = field(default_factory=dict)
    now: float = 0.0
    calls: list[tuple[int, ...]] = field(default_factory=list)  # what each had to begin with
    in_flight: int = 0
    most_in_flight: int = 0

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def __call__(self, samples: np.ndarray, begins) -> Spoken:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            self.calls.append(tuple(begins))
            await asyncio.sleep(0)
            self.now += self.took
            if (status := self.refused.get(len(self.calls))) is not None:
                raise Refusal(status, "Too much to do.")
            tokens = said(samples)
            if self.wrong and samples[-1] != SILENCE:
                tokens = [*tokens[: -self.wrong], *(900 + len(self.calls) for _ in tokens[-self.wrong :])]
            tokens = [*begins, *tokens[len(begins) :]]
            return Spoken(decode(tokens), tuple(tokens), stores=(("parliament", 0.5),))
        finally:
            self.in_flight -= 1
