"""Live captions: speech in as it is spoken, text out that is only ever extended once it is stable.

``Captions`` knows no socket and no model. Whoever drives it feeds samples with ``hear``, asks with ``due`` what is to
be done next, and awaits ``translate`` for it, one pass at a time:

    captions.hear(samples)
    while (work := captions.due()) is not None:
        for event in await captions.translate(work):
            send(event.message())

A pass hears the segment that is being spoken from its beginning. Segments end at pauses, or where the model takes no
more. A segment whose padding has been heard is translated whole at once, without waiting for the rest of the pause:
if nothing more is said, that was its final pass.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from npda.audio import SAMPLE_RATE
from npda.segmentation import Detector, Pauses, Stretch
from npda.segmentation.cutting import Cutter
from npda.serving.captions.agreement import Agreement, Decode, Said
from npda.serving.errors import Refusal

Keep = Callable[["Final", np.ndarray], str]  # remembers a segment and its samples → the id to correct it by
Utterance = Callable[[np.ndarray, Sequence[int]], Awaitable[Said]]  # samples, the tokens it begins with

_LATER = (503, 504)  # refusals of a machine that has too much to do


@dataclass(frozen=True)
class Pace:
    """When passes are made; times in seconds."""

    least: float = 0.6  # new speech between the beginnings of two passes
    share: float = 1.5  # the same in times of what the last pass took
    most: float = 10.0  # the same where passes are refused, which doubles it every time
    held: int = 1  # words at the end of a pass that are never stable
    whole: float = 0.7  # share of the longest segment that is never cut, and in which text becomes stable
    patience: float = 60.0  # how long a final pass is tried again while the machine refuses it
    retry: float = 0.5  # from one of these to the next


@dataclass(frozen=True)
class Partial:
    """The text of a segment so far is ``stable + unstable``; ``stable`` is only ever extended."""

    segment: int
    stable: str
    unstable: str
    start: float

    def message(self) -> dict[str, Any]:
        return {"type": "partial", **asdict(self)}


@dataclass(frozen=True)
class Final:
    """A whole segment, in seconds of what was heard. The text begins with what was stable.

    request_id: by which it can be corrected, where it was kept
    """

    segment: int
    text: str
    start: float
    end: float
    stores: dict[str, float] = field(default_factory=dict)
    request_id: str = ""

    def message(self) -> dict[str, Any]:
        said = {"type": "final", **asdict(self)}
        return said if self.request_id else {name: value for name, value in said.items() if name != "request_id"}


Event = Partial | Final


@dataclass(frozen=True, eq=False)
class Pass:
    """What is to be translated next. whole: as if nothing more were said; final: it is known that nothing is"""

    stretch: Stretch
    whole: bool = False
    final: bool = False


class Captions:
    """The captions of one speaker, from the first sample to the last."""

    def __init__(
        self,
        utterance: Utterance,
        decode: Decode,
        detector: Detector,
        pauses: Pauses = Pauses(),
        pace: Pace = Pace(),
        *,
        keep: Keep = lambda final, samples: "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """utterance: translates [n] float32 at 16 kHz; decode: its tokens to text; detector: a fresh one"""
        self._utterance = utterance
        self._decode = decode
        self._pace = pace
        self._cutter = Cutter(detector, replace(pauses, whole=pace.whole))
        self._keep = keep
        self._clock = clock
        self._sleep = sleep
        self._closed: deque[Stretch] = deque()  # segments that wait for their final pass
        self._number = 0  # of the segment that is translated now
        self._begin_segment()
        self._wait = pace.least  # seconds of new speech before the next pass
        self._in_flight = False
        self.seconds = 0.0  # of audio heard

    def _begin_segment(self) -> None:
        self._agreement = Agreement(self._decode, self._pace.held)
        self._shown: Partial | None = None
        self._looked = -1.0  # where the speech ended that the last pass has heard
        self._tried: tuple[np.ndarray, Said] | None = None  # a pass as if nothing more were said

    def hear(self, samples: np.ndarray) -> None:
        """The next samples, [n] float32 at 16 kHz."""
        self.seconds += len(samples) / SAMPLE_RATE
        self._closed.extend(self._cutter.hear(samples))

    def finish(self) -> None:
        """Nothing more will be heard."""
        self._closed.extend(self._cutter.finish())

    @property
    def backlog(self) -> float:
        """Seconds of speech that wait for their final pass."""
        return sum(stretch.end - stretch.start for stretch in self._closed)

    def due(self, *, busy: bool = False) -> Pass | None:
        """The pass that is to be made now, if any. busy: whether others need the machine more than a partial text"""
        if self._in_flight:
            return None
        if self._closed:
            return Pass(self._closed[0], whole=True, final=True)
        stretch = None if busy else self._cutter.speaking()
        if stretch is None or stretch.end <= self._looked:
            return None
        if self._cutter.settled:
            return Pass(stretch, whole=True)
        return Pass(stretch) if stretch.end - max(self._looked, stretch.start) >= self._wait else None

    async def translate(self, work: Pass) -> list[Event]:
        """Make the pass that was due. → what is to be told; nothing if there is no text, or no time for a partial one

        Raises the ``Refusal`` of what will never work, and of a final pass that has been refused for too long.
        """
        if self._in_flight:
            raise RuntimeError("a pass of these captions is in flight already")
        self._in_flight = True
        try:
            event = await (self._final(work.stretch) if work.final else self._partial(work))
            return [] if event is None else [event]
        finally:
            self._in_flight = False

    async def _partial(self, work: Pass) -> Partial | None:
        stretch, started = work.stretch, self._clock()
        # What was stable by the pass before was said before that pass, and so before any cut.
        grow = self._looked - stretch.start <= self._cutter.whole
        self._looked = stretch.end
        try:
            if work.whole:
                translation = await self._translated(stretch.samples)
                self._tried = stretch.samples, translation
            else:
                translation = await self._utterance(stretch.samples, self._agreement.tokens)
        except Refusal as refusal:
            if refusal.status not in _LATER:
                raise
            self._wait = min(2 * self._wait, self._pace.most)
            return None
        self._wait = max(self._pace.least, self._pace.share * (self._clock() - started))
        unstable = self._agreement.add(translation, grow=grow)
        shown = Partial(self._number, self._agreement.stable, unstable, round(stretch.start, 3))
        if shown == self._shown or not (self._shown or shown.stable + shown.unstable):
            return None
        self._shown = shown
        return shown

    async def _final(self, stretch: Stretch) -> Final | None:
        if self._tried is not None and np.array_equal(self._tried[0], stretch.samples):
            translation = self._tried[1]
        else:
            translation = await self._patiently(stretch.samples)
        text, shown, number = self._agreement.close(translation.text), self._shown, self._number
        self._closed.popleft()
        self._begin_segment()
        if not text and shown is None:
            return None
        self._number += 1
        stores = {name: round(weight, 4) for name, weight in translation.stores}
        final = Final(number, text, round(stretch.start, 3), round(stretch.end, 3), stores)
        return replace(final, request_id=self._keep(final, stretch.samples))

    async def _patiently(self, samples: np.ndarray) -> Said:
        """Final passes are tried until the machine has time for them."""
        until = self._clock() + self._pace.patience
        while True:
            try:
                return await self._translated(samples)
            except Refusal as refusal:
                if refusal.status not in _LATER or self._clock() >= until:
                    raise
            await self._sleep(self._pace.retry)

    async def _translated(self, samples: np.ndarray) -> Said:
        """A whole segment, which begins with what is stable already."""
        translation = await self._utterance(samples, ())
        if self._agreement.tokens and not self._agreement.admits(translation.text):
            translation = await self._utterance(samples, self._agreement.tokens)
        return translation
