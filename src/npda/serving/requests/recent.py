"""The latest requests, kept in memory so that their translations can be corrected."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npda.audio import SAMPLE_RATE
from npda.serving.engine.asks import Way
from npda.serving.errors import Refusal
from npda.writers import Segment

MOST_SECONDS = 4 * 3600.0  # of audio, whatever the number of requests: half a gigabyte


@dataclass(frozen=True)
class Remembered:
    """A request that has been answered. audio: [n] int16 at 16 kHz; user: the name of the key that sent it"""

    id: str
    way: Way
    audio: np.ndarray
    segments: tuple[Segment, ...]
    user: str

    def samples(self, segment: int | None = None) -> np.ndarray:
        """[n] float32 of the whole, or of one of its segments."""
        heard = self.audio
        if segment is not None:
            if not 0 <= segment < len(self.segments):
                raise Refusal(422, f"Request {self.id} has {len(self.segments)} segments, counted from 0.", "segment")
            piece = self.segments[segment]
            heard = heard_for(piece, heard)
        return heard.astype(np.float32) / 32_768


def heard_for(segment: Segment, samples: np.ndarray) -> np.ndarray:
    """What a segment was translated from. samples: [n] at 16 kHz, of the recording"""
    first, last = segment.heard or (round(segment.start * SAMPLE_RATE), round(segment.end * SAMPLE_RATE))
    return samples[first:last]


class Recent:
    """The last requests, the oldest forgotten first. Threads may share it."""

    def __init__(self, most: int, most_seconds: float = MOST_SECONDS) -> None:
        self._most, self._samples = most, round(most_seconds * 16_000)
        self._kept: OrderedDict[str, Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, id: str, way: Way, samples: np.ndarray, segments: Sequence[Segment], user: str) -> None:
        """samples: [n] float32 at 16 kHz. What is longer than all that may be kept is not remembered."""
        if len(samples) > self._samples or self._most < 1:
            return
        audio = np.clip(np.rint(samples * 32_768), -32_768, 32_767).astype(np.int16)
        with self._lock:
            self._kept[id] = Remembered(id, way, audio, tuple(segments), user)
            self._kept.move_to_end(id)
            while len(self._kept) > self._most or self._held() > self._samples:
                self._kept.popitem(last=False)

    def get(self, id: str) -> Remembered:
        with self._lock:
            found = self._kept.get(id)
        if found is None:
            raise Refusal(
                404,
                f"No request {id[:64]!r} is remembered: the server keeps the audio of the latest {self._most} requests "
                "until it is restarted; send the audio itself as `file`.",
                "request_id",
                "request_not_found",
            )
        return found

    def __len__(self) -> int:
        return len(self._kept)

    def _held(self) -> int:
        return sum(len(request.audio) for request in self._kept.values())
