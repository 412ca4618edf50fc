"""Live captions: how long after a word its text is stable, what that costs, and what it costs in quality.

    python -m benchmarks.live                  # NPDA_MODELS and NPDA_DATA say where whisper-base and its clips are
    python -m benchmarks.live --held 2 --least 1.0

Recordings are joined from test clips with pauses between them: everyday talk of the embedded corpus for the shipped
model and, where present, of ``pico-de-en`` for whisper-base. They are played to ``npda.serving.captions.live`` by a
clock that is made up: audio comes as it is spoken, and a pass takes as long as it takes the processor. So nothing
waits, and other work on the machine does not count.

The lag of a word is the time from its end to the event by which its translation is stable. Ends of words are by the
number of letters within the clip, whose beginning and end are known; a word of the translation belongs to the spoken
word at the same share of its segment. Quality is compared with the same recordings given whole to the same engine.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Line, Result, Skipped, arguments, report
from npda import audio
from npda.audio import SAMPLE_RATE
from npda.corpus import mini
from npda.corpus.manifest import Utterance, read_manifest
from npda.demo.model import SHIPPED
from npda.evaluation.scores import bleu, chrf
from npda.segmentation import Pauses, best_detector
from npda.serving.captions.live import Captions, Event, Final, Pace, Partial
from npda.serving.engine.asks import Way
from npda.serving.engine.engine import BatchingEngine
from npda.serving.settings import Settings
from npda.translation import Translation

FRAME = SAMPLE_RATE // 10  # samples that come at a time
PAUSES = (0.8, 1.6)  # seconds between two clips
LOUD = 0.02  # of full scale: where a clip's speech begins and ends


@dataclass(frozen=True)
class Clip:
    """One sentence of a recording. words: when each of them ends, in seconds of the recording"""

    start: float
    end: float
    words: tuple[float, ...]
    reference: str


@dataclass(frozen=True)
class Recording:
    samples: np.ndarray
    clips: tuple[Clip, ...]


@dataclass
class Clock:
    """Seconds since the recording began, and of the processor's work."""

    now: float = 0.0
    worked: float = 0.0
    passes: int = 0

    def add(self, since: float) -> None:
        """since: of ``time.process_time``"""
        took = time.process_time() - since
        self.now += took
        self.worked += took


@dataclass
class Played:
    events: list[tuple[float, Event]] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    @property
    def finals(self) -> list[Final]:
        return [event for _, event in self.events if isinstance(event, Final)]


def recordings(utterances: Sequence[Utterance], count: int) -> Iterator[Recording]:
    """So many clips to a recording, in their order."""
    chance = np.random.default_rng(0)
    for first in range(0, len(utterances), count):
        pieces, clips, place = [np.zeros(SAMPLE_RATE // 2, np.float32)], [], SAMPLE_RATE // 2
        for utterance in utterances[first : first + count]:
            samples = audio.load(utterance.audio)
            loud = np.flatnonzero(np.abs(samples) > LOUD)
            start, end = (place + loud[0]) / SAMPLE_RATE, (place + loud[-1]) / SAMPLE_RATE
            clips.append(Clip(start, end, ends(utterance.src_text or "", start, end), utterance.tgt_text))
            silence = np.zeros(round(chance.uniform(*PAUSES) * SAMPLE_RATE), np.float32)
            pieces += [samples, silence]
            place += len(samples) + len(silence)
        yield Recording(np.concatenate(pieces), tuple(clips))


def ends(text: str, start: float, end: float) -> tuple[float, ...]:
    """When the words of a sentence end, by their letters."""
    letters = np.cumsum([len(word) + 1 for word in text.split()])
    return tuple(start + (end - start) * letters / letters[-1])


async def play(engine: BatchingEngine, way: Way, recording: Recording, pace: Pace) -> Played:
    """The captions of a recording, with the time of each event."""
    played, place, samples = Played(), 0, recording.samples
    clock, longest = played.clock, await engine.longest(way.model) - 0.5

    async def utterance(waveform: np.ndarray, begins: Sequence[int]) -> Translation:
        since = time.process_time()
        try:
            return await engine.utterance(waveform, way, begins)
        finally:
            clock.add(since)
            clock.passes += 1

    decode = await engine.run(way.model, lambda translator: translator.backbone.target.decode)
    pauses = Pauses(longest=min(30.0, longest))
    captions = Captions(utterance, decode, best_detector(), pauses, pace, clock=lambda: clock.now)
    while True:
        since = time.process_time()
        while place < len(samples) and (place + FRAME) / SAMPLE_RATE <= clock.now:
            captions.hear(samples[place : place + FRAME])
            place += FRAME
            if place >= len(samples):
                captions.finish()
        clock.add(since)
        if (work := captions.due()) is not None:
            events = await captions.translate(work)
            played.events += [(clock.now, event) for event in events]
        elif place >= len(samples):
            return played
        else:
            clock.now = max(clock.now, (place + FRAME) / SAMPLE_RATE)


def lags(recording: Recording, played: Played) -> list[float]:
    """Seconds from the end of the spoken word to the stable text of every word of the translation."""
    spoken = [end for clip in recording.clips for end in clip.words]
    found = []
    for final in played.finals:
        written, heard = final.text.split(), [end for end in spoken if final.start - 0.3 < end <= final.end + 0.3]
        stable: list[float] = []  # when each word was
        for when, event in played.events:
            if event.segment == final.segment:
                text = event.stable if isinstance(event, Partial) else event.text
                stable += [when] * (len(text.split()) - len(stable))
        for place, when in enumerate(stable):
            if heard:
                found.append(when - heard[math.ceil((place + 1) * len(heard) / len(written)) - 1])
    return found


def by_clip(recording: Recording, segments: Sequence[Any]) -> list[str]:
    """The text of each clip; segments have start, end and text, and belong where most of them is."""

    def shared(segment: Any, clip: Clip) -> float:
        return min(segment.end, clip.end) - max(segment.start, clip.start)

    texts: list[list[str]] = [[] for _ in recording.clips]
    for segment in segments:
        best = max(range(len(texts)), key=lambda place: shared(segment, recording.clips[place]))
        texts[best].append(segment.text.strip())
    return [" ".join(parts) for parts in texts]


async def measure_one(name: str, way: Way, path: Path, spoken: Sequence[Recording], options: Any) -> list[Result]:
    with TemporaryDirectory() as folder:
        engine = BatchingEngine(Settings({way.model: path}, Path(folder)), threads=options.threads)
        pace = Pace(least=options.least, share=options.share, held=options.held)
        await engine.utterance(spoken[0].samples[: 3 * SAMPLE_RATE], way)  # warms up
        played, whole, took = [], [], 0.0
        for recording in spoken:
            played.append(await play(engine, way, recording, pace))
            since = time.process_time()
            found = [segment async for segment in engine.segments(recording.samples, way)]
            took += time.process_time() - since
            whole += by_clip(recording, found)
        await engine.close()
    seconds = sum(len(recording.samples) for recording in spoken) / SAMPLE_RATE
    worked = sum(one.clock.worked for one in played)
    late = np.array([lag for recording, one in zip(spoken, played, strict=True) for lag in lags(recording, one)])
    early = np.mean([stable_share(one) for one in played])
    live = [text for recording, one in zip(spoken, played, strict=True) for text in by_clip(recording, one.finals)]
    references = [clip.reference for recording in spoken for clip in recording.clips]
    passes = sum(one.clock.passes for one in played)
    note = f"{len(late)} words in {seconds:.0f} s of {len(spoken)} recordings, {passes} passes"
    lines: list[Result] = [
        Line(f"{name}: lag of stable text, median s", float(np.median(late)), note=note),
        Line(f"{name}: lag of stable text, p95 s", float(np.quantile(late, 0.95))),
        Line(f"{name}: words stable before their pause, share", float(early)),
        Line(f"{name}: real-time factor", worked / seconds, note=f"whole file {took / seconds:.3f}"),
    ]
    for score in (bleu, chrf):
        all_at_once, as_spoken = score(whole, references), score(live, references)
        note = f"whole {all_at_once.value:.2f}, live {as_spoken.value:.2f}"
        lines.append(Line(f"{name}: {all_at_once.name} lost", all_at_once.value - as_spoken.value, note=note))
    return lines


def stable_share(played: Played) -> float:
    last = {event.segment: len(event.stable.split()) for _, event in played.events if isinstance(event, Partial)}
    written = sum(len(final.text.split()) for final in played.finals)
    return sum(last.values()) / max(1, written)


def measure(options: Any) -> Iterator[Result]:
    if options.only in (None, "mini"):
        yield from measure_mini(options)
    if options.only in (None, "whisper-base"):
        yield from measure_whisper(options)


def measure_mini(options: Any) -> Iterator[Result]:
    corpus = mini.prepare(progress=False, only=[("general", "test")])
    utterances = read_manifest(corpus.manifest("general", "test"))[: options.sentences]
    spoken = list(recordings(utterances, options.clips))
    yield from asyncio.run(measure_one("live, mini", Way("mini", stores=()), SHIPPED, spoken, options))


def measure_whisper(options: Any) -> Iterator[Result]:
    model = Path(os.environ.get("NPDA_MODELS", "models")) / "whisper-base"
    manifest = Path(os.environ.get("NPDA_DATA", "data")) / "pico-de-en" / "tatoeba" / "test.tsv"
    for path, variable in ((model, "NPDA_MODELS"), (manifest, "NPDA_DATA")):
        if not path.exists():
            yield Skipped("live, whisper-base", f"there is no {path}: set {variable}")
            return
    spoken = list(recordings(read_manifest(manifest)[: options.sentences], options.clips))
    way = Way("whisper-base", "de", "en", stores=())
    yield from asyncio.run(measure_one("live, whisper-base", way, model, spoken, options))


def main() -> bool:
    parser = arguments(__doc__, repeats=1)
    usual = Pace()
    parser.add_argument("--sentences", type=int, default=60, help="clips of each corpus")
    parser.add_argument("--clips", type=int, default=10, help="of a recording")
    parser.add_argument("--least", type=float, default=usual.least, help="seconds of new speech between two passes")
    parser.add_argument("--share", type=float, default=usual.share, help="the same in times of what a pass takes")
    parser.add_argument("--held", type=int, default=usual.held, help="words at the end of a pass that are never stable")
    parser.add_argument("--only", choices=("mini", "whisper-base"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        "A clock that is made up: audio comes as it is spoken, passes take their processor time. Ends of words are by"
    )
    print("letters within each clip.")
    return report("live", lambda: measure(options), options.json)


if __name__ == "__main__":
    sys.exit(not main())
