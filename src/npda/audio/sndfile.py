"""Audio files that libsndfile reads: wav, flac, ogg (vorbis, opus), mp3, aiff and others."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from npda.audio.headers import promised_seconds
from npda.audio.sound import BLOCK, CutOff, check_piece, check_rate, cut_off
from npda.io.errors import InputError

SNDFILE_ERRORS = (soundfile.SoundFileError, OSError, RuntimeError)

_SLACK = 0.05  # seconds that may be missing at the end
_TAGS = 16_384  # bytes that may follow the sound of an mp3


class SndfileSound:
    """An audio file opened by libsndfile."""

    def __init__(self, file: Path, sound: soundfile.SoundFile) -> None:
        self._file = file
        self._sound = sound
        self.rate = sound.samplerate
        check_rate(file, self.rate)

    @classmethod
    @contextmanager
    def open(cls, file: Path) -> Iterator["SndfileSound"]:
        """A file until the context ends; one of SNDFILE_ERRORS if libsndfile does not know its format."""
        with ExitStack() as stack:
            if file.suffix.lower() == ".raw":
                raise soundfile.SoundFileError("a raw file does not say its rate")
            name: Any = os.fsencode(file)  # which need not be UTF-8
            sound = stack.enter_context(soundfile.SoundFile(name))
            if sound.format == "MP3":
                # By its descriptor, so that `_unread` can see how far it was read.
                descriptor = stack.enter_context(open(file, "rb")).fileno()
                sound = stack.enter_context(soundfile.SoundFile(descriptor, closefd=False))
            yield cls(file, sound)

    def seconds(self) -> float:
        return self._sound.frames / self.rate

    def count(self) -> int:
        return self._sound.frames

    def blocks(self, offset: int, length: int | None) -> Iterator[tuple[np.ndarray, bool]]:
        sound = self._sound
        check_piece(self._file, offset, length, sound.frames)
        try:
            sound.seek(offset)
            wanted = left = max(sound.frames - offset, 0) if length is None else length
            while left > 0:
                block = sound.read(min(left, BLOCK * self.rate), dtype="float32", always_2d=True).mean(axis=1)
                # A file that was cut off promises more samples than it has.
                got, left = len(block), left - len(block)
                yield block, left == 0 or got == 0
                if got == 0:
                    raise cut_off(self._file, (offset + wanted - left) / self.rate, sound.frames / self.rate)
        except SNDFILE_ERRORS as error:
            raise CutOff(f"{self._file} cannot be read any further ({error}); copy or export it again.") from None
        if sound.tell() >= sound.frames:
            promised = promised_seconds(self._file)
            if promised is not None and promised > sound.frames / self.rate + _SLACK:
                raise cut_off(self._file, sound.frames / self.rate, promised)
        if sound.tell() >= sound.frames and _unread(sound) > _TAGS:
            raise InputError(
                f"{self._file} is longer than the {sound.frames / self.rate:.0f} s that were read: an mp3 of varying "
                "bit rate that does not say how long it is; rewrite it, for example with "
                "ffmpeg -i OLD.mp3 -c copy NEW.mp3."
            )


def _unread(sound: soundfile.SoundFile) -> int:
    """Bytes behind what was read of an mp3: libsndfile guesses the length if no Xing header tells, and stops there."""
    if not isinstance(sound.name, int):
        return 0
    return os.fstat(sound.name).st_size - os.lseek(sound.name, 0, os.SEEK_CUR)
