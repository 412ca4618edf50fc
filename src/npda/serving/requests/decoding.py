"""From an uploaded file to samples, under a limit of seconds, outside the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from npda import audio
from npda.io.errors import InputError
from npda.serving.errors import Refusal
from npda.serving.requests.receiving import Room, Share, Upload
from npda.serving.settings import Settings

_AT_ONCE = 2  # files
_SHORTEST = 0.1  # seconds
_FAULTS = (InputError, ValueError, ArithmeticError, MemoryError, RuntimeError, OSError)  # of damaged files

logger = logging.getLogger(__name__)


class Decoder:
    """Decodes uploads in threads of its own."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.max_seconds
        self._threads = ThreadPoolExecutor(_AT_ONCE, "npda-decode")
        self.room = Room(max(2 * self.most, 3600.0), "Too much audio is being translated")

    async def samples(self, upload: Upload, share: Share) -> np.ndarray:
        """[n] float32 at 16 kHz. share: of ``room``, in seconds, until the samples are no longer needed"""
        gone = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._decode, upload, share, gone)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            gone.set()
            with suppress(Exception):  # the file must not be removed while it is read
                await work
            raise

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _decode(self, upload: Upload, share: Share, gone: threading.Event) -> np.ndarray:
        if upload.size == 0:
            raise Refusal(422, f"{upload.name} is empty: send a recording.", "file", "empty")
        try:
            promised = audio.duration(upload.path)
        except _FAULTS as error:
            raise Refusal(415, _told(error, upload), "file", "no_audio") from None
        if promised > self.most:
            raise self._too_long(promised)
        blocks, seconds = [], 0.0
        try:
            for block in audio.stream(upload.path):
                if gone.is_set():
                    return np.empty(0, np.float32)
                seconds += len(block) / audio.SAMPLE_RATE
                if seconds > self.most:
                    raise self._too_long(seconds)
                share.grow(len(block) / audio.SAMPLE_RATE)
                blocks.append(block)
        except _FAULTS as error:
            raise Refusal(422, _told(error, upload), "file", "bad_audio") from None
        if seconds < _SHORTEST:
            raise Refusal(
                422, f"{upload.name} lasts {1000 * seconds:.0f} ms, which is too short for speech.", "file", "too_short"
            )
        return np.concatenate(blocks)

    def _too_long(self, seconds: float) -> Refusal:
        return Refusal(
            413,
            f"A recording may last {self.most:.0f} s at most here, this one lasts {seconds:.0f} s or more: send parts.",
            "file",
            "too_long",
        )


def _told(error: Exception, upload: Upload) -> str:
    """The sentence, with the client's name of the file instead of ours."""
    if not isinstance(error, InputError):
        logger.warning("an upload that readers of audio stumble over: %r", error)
        return f"{upload.name} cannot be read as audio; export it as wav or flac."
    return str(error).replace(str(upload.path), upload.name)
