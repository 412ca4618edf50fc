"""Audio files to samples: mono at 16 kHz, whole or block by block."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import soxr

from npda.audio.features import SAMPLE_RATE, WINDOW
from npda.audio.sndfile import SNDFILE_ERRORS, SndfileSound
from npda.audio.sound import CutOff, Sound, check_piece
from npda.io.errors import InputError
from npda.io.files import audio_piece, check_file

# By these names audio is found in a folder; a file that is named itself may have any.
SUFFIXES = (
    *(".aac", ".ac3", ".aif", ".aifc", ".aiff", ".amr", ".au", ".caf", ".flac", ".m4a", ".m4b", ".mka", ".mp2", ".mp3"),
    *(".oga", ".ogg", ".opus", ".w64", ".wav", ".weba", ".wma"),
    *(".3gp", ".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ogv", ".webm", ".wmv"),
)


def load(path: str | Path) -> np.ndarray:
    """Read audio as mono at 16 kHz, [samples] float32 between -1 and 1; channels are averaged.

    libsndfile reads wav, flac, ogg (vorbis, opus) and mp3; FFmpeg reads what libsndfile cannot: m4a, webm, the first
    audio stream of a video, and others. "talk.wav:offset:length" reads a piece, counted in samples of the file's own
    rate, as the manifests of fairseq S2T name it. CutOff holds what could be read of a file that is not whole.
    """
    blocks = [np.empty(0, np.float32)]
    try:
        blocks.extend(stream(path))
    except CutOff as error:
        error.samples = np.concatenate(blocks)
        raise
    waveform = np.concatenate(blocks)
    if len(waveform) < WINDOW:
        milliseconds = 1000 * len(waveform) / SAMPLE_RATE
        raise InputError(f"{path} lasts {milliseconds:.0f} ms, which is too short: features need 25 ms.")
    return waveform


def stream(path: str | Path) -> Iterator[np.ndarray]:
    """What `load` reads, sample by sample the same, in blocks of about ten seconds: [samples] float32 each."""
    file, offset, samples = audio_piece(path)
    with _opened(file) as sound:
        resampler = soxr.ResampleStream(sound.rate, SAMPLE_RATE, 1) if sound.rate != SAMPLE_RATE else None
        for block, last in sound.blocks(offset, samples):
            if not np.isfinite(block).all():
                raise InputError(f"{path} holds samples that are not numbers (NaN or infinity); export it again.")
            yield block if resampler is None else resampler.resample_chunk(block, last=last)


def duration(path: str | Path) -> float:
    """Seconds of audio, as the file says of itself."""
    file, offset, samples = audio_piece(path)
    with _opened(file) as sound:
        if samples is None:
            return sound.seconds()
        if isinstance(sound, SndfileSound):  # which knows its length without decoding
            check_piece(file, offset, samples, sound.count())
        return samples / sound.rate


def length(path: str | Path) -> tuple[int, int]:
    """How many samples a whole file holds, and how many there are a second."""
    with _opened(Path(path)) as sound:
        return sound.count(), sound.rate


@contextmanager
def _opened(file: Path) -> Iterator[Sound]:
    """A file, opened by libsndfile if it can, by FFmpeg if not."""
    check_file(file, "audio file")
    with ExitStack() as stack:
        try:
            sound = stack.enter_context(SndfileSound.open(file))
        except SNDFILE_ERRORS:
            from npda.audio.ffmpeg import FfmpegSound  # FFmpeg is large, and few files need it

            sound = FfmpegSound(file)
        yield sound
