"""Audio files that only FFmpeg reads: m4a, mp4, webm, mkv, aac, wma and others, through PyAV."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import av
import numpy as np
from av import AudioFrame, AudioStream, Packet
from av.container import InputContainer
from av.error import FFmpegError

from npda.audio.headers import promised_seconds
from npda.audio.sound import BLOCK, CutOff, check_piece, check_rate, cut_off
from npda.io.errors import InputError

_ERRORS = (FFmpegError, OSError, EOFError)

_PREROLL = 1.0  # seconds a decoder needs until it gives what it would have given from the beginning
_CUT_OFF = 1.0  # seconds that may be missing at the end before a file counts as cut off


class _Content(io.FileIO):
    """A file before whose beginning FFmpeg may look in vain; of an exception PyAV would print the traceback."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        try:
            return super().seek(offset, whence)
        except OSError:
            return -1


class FfmpegSound:
    """The first audio stream of a file. Its samples are what the decoder gives, one frame after the other."""

    def __init__(self, file: Path) -> None:
        """Reads the first frame; InputError, a sentence, if there is no audio in the file."""
        self._file = file
        with self._opened() as (container, stream):
            try:
                first = next(_decoded(container, stream), None)
            except _ERRORS as error:
                raise _unreadable(file, error) from None
            if first is None:
                raise InputError(f"{file} has no sound: its audio stream is empty; export it again.")
            # Not from the header: HE-AAC gives twice the rate that it says.
            self.rate = first.sample_rate
            check_rate(file, self.rate)
            self._start = first.pts
            self._index_end = len(stream.index_entries) * _packet_length(container, stream)

    def seconds(self) -> float:
        with self._opened() as (container, stream):
            if _is(container, "mov") and stream.duration and stream.time_base:
                return float(stream.duration * stream.time_base)
            if _is(container, "matroska") and container.duration:
                return container.duration / 1_000_000
            # Other headers are missing or guessed from the bit rate. Packets know their times without being decoded.
            times = [_times(packet) for packet in container.demux(stream) if packet.pts is not None]
        return max(end for _, end in times) - min(start for start, _ in times) if times else self.count() / self.rate

    def count(self) -> int:
        end = 0
        for place, samples in self._frames(max(0, self._index_end - self.rate)):
            end = place + len(samples)
        return end

    def blocks(self, offset: int, length: int | None) -> Iterator[tuple[np.ndarray, bool]]:
        end = None if length is None else offset + length
        kept, size = [np.empty(0, np.float32)], 0  # what was decoded and not handed over
        reached, fault = offset, None
        try:
            for place, frame in self._frames(offset):
                if size >= BLOCK * self.rate:  # and this is not the end of the file
                    yield np.concatenate(kept), False
                    kept, size = [], 0
                reached = place + len(frame)
                if reached > offset:
                    kept.append(frame[max(0, offset - place) : None if end is None else max(0, end - place)])
                    size += len(kept[-1])
                if end is not None and reached >= end:
                    break
        except InputError as error:
            fault = error
        # What could be read comes before the fault.
        yield np.concatenate(kept), fault is None
        if fault is not None:
            raise fault
        check_piece(self._file, offset, length, reached)
        promised = promised_seconds(self._file) if end is None else None
        if promised is not None and promised > reached / self.rate + _CUT_OFF:
            raise cut_off(self._file, reached / self.rate, promised)

    def _frames(self, offset: int) -> Iterator[tuple[int, np.ndarray]]:
        """Frames in order, the first of them at or before `offset`: place in the file and samples [n] float32."""
        place = 0
        with self._opened() as (container, stream):
            try:
                sought = self._seek(container, stream, offset)
                for frame in _decoded(container, stream):
                    if sought:
                        place, sought = (frame.pts or 0) - (self._start or 0), False
                    if frame.sample_rate != self.rate:
                        raise InputError(
                            f"{self._file} changes from {self.rate} to {frame.sample_rate} samples a second at "
                            f"{place / self.rate:.1f} s; export it again at one rate."
                        )
                    yield place, _mono(frame)
                    place += frame.samples
            except _ERRORS as error:
                raise CutOff(
                    f"{self._file} cannot be read any further than {place / self.rate:.1f} s ({_reason(error)}); "
                    "it is cut off or damaged: copy or download it again."
                ) from None

    def _seek(self, container: InputContainer, stream: AudioStream, offset: int) -> bool:
        """Go to a packet from which decoding gives the exact samples from `offset` on; False if none is known.

        Timestamps tell the place of a sample if they count samples and no packet before left a gap. Only the index of
        an mp4 or m4a shows that; of other files everything before `offset` is decoded.
        """
        target = offset - int(_PREROLL * self.rate)
        packet = _packet_length(container, stream)
        if target <= 0 or packet <= 0 or self._start is None or (stream.time_base or 0) * self.rate != 1:
            return False
        index, number = stream.index_entries, target // packet
        timestamp = index[0].timestamp + number * packet
        if number >= len(index) or index[number].timestamp != timestamp:
            return False
        container.seek(timestamp, stream=stream)
        return True

    @contextmanager
    def _opened(self) -> Iterator[tuple[InputContainer, AudioStream]]:
        """Afresh for every reading: going back to the start does not skip a codec's lead-in again."""
        with ExitStack() as stack:
            try:
                content = stack.enter_context(_Content(self._file))
                # With an open file and no protocol, a playlist cannot make FFmpeg open other files or addresses.
                options = {"protocol_whitelist": "none"}
                container = stack.enter_context(av.open(content, mode="r", options=options, metadata_errors="replace"))
            except _ERRORS as error:
                raise _unreadable(self._file, error) from None
            if not container.streams.audio:
                raise InputError(f"{self._file} has no sound: there is no audio stream in it; export it with sound.")
            yield container, container.streams.audio[0]


def _decoded(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    """All frames from the present place on; a Matroska file that ends too early is found out here.

    FFmpeg reports that itself for other containers. All streams are looked at, for the pictures of a video may last
    longer than its sound.
    """
    promised = (container.duration or 0) / 1_000_000 if _is(container, "matroska") else 0.0
    ended = 0.0
    for packet in container.demux() if promised else container.demux(stream):
        if packet.pts is not None:
            ended = max(ended, _times(packet)[1])
        if packet.stream.index == stream.index:
            yield from stream.decode(packet)
    if ended < promised - _CUT_OFF:
        raise EOFError(f"it should last {promised:.1f} s")


def _packet_length(container: InputContainer, stream: AudioStream) -> int:
    """By the timestamps of the first two packets in the index of an mp4 or m4a; 0 without one."""
    index = stream.index_entries
    return index[1].timestamp - index[0].timestamp if _is(container, "mov") and len(index) > 1 else 0


def _is(container: InputContainer, format: str) -> bool:
    return format in container.format.name.split(",")


def _unreadable(file: Path, error: Exception) -> InputError:
    return InputError(
        f"{file} cannot be read as audio ({_reason(error)}); check that it is complete and plays elsewhere, or export "
        "it as wav or flac."
    )


def _mono(frame: AudioFrame) -> np.ndarray:
    """The mean of the channels between -1 and 1, [samples] float32."""
    samples = frame.to_ndarray()
    if not frame.format.is_planar:
        samples = samples.reshape(-1, frame.layout.nb_channels).T
    if samples.dtype == np.uint8:
        samples = (samples.astype(np.float32) - 128) / 128
    elif samples.dtype.kind == "i":
        samples = samples.astype(np.float32) / 2.0 ** (8 * samples.dtype.itemsize - 1)
    return samples.astype(np.float32, copy=False).mean(axis=0)


def _times(packet: Packet) -> tuple[float, float]:
    """Start and end in seconds."""
    assert packet.pts is not None
    return float(packet.pts * packet.time_base), float((packet.pts + (packet.duration or 0)) * packet.time_base)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
