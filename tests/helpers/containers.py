"""Audio in the containers that people have, encoded here: m4a, mp4, webm, mkv, opus, aac, with pictures or without."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

CODECS = {".m4a": "aac", ".mp4": "aac", ".aac": "aac", ".mkv": "aac", ".webm": "libopus", ".opus": "libopus"}
CODECS |= {".mp3": "libmp3lame", ".flac": "flac", ".ogg": "libopus", ".mov": "aac"}


def encode(
    path: Path,
    samples: np.ndarray,
    rate: int,
    codec: str | None = None,
    *,
    pictures: bool = False,
    header_first: bool = False,
) -> Path:
    """Write samples, [n] or [channels, n] float32. pictures: a black video as well, before the sound"""
    samples = np.atleast_2d(samples).astype(np.float32)
    codec = codec or CODECS[path.suffix]
    with av.open(str(path), "w", options={"movflags": "faststart"} if header_first else {}) as container:
        video: Any = container.add_stream("mpeg4", rate=5) if pictures else None
        # Without noise substitution, a decoder gives the same samples wherever it began.
        options = {"aac_pns": "0"} if codec == "aac" else {}
        audio: Any = container.add_stream(codec, rate=rate, options=options)
        audio.layout = "mono" if len(samples) == 1 else "stereo"
        if video is not None:
            video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
            for number in range(5 * samples.shape[1] // rate):
                picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
                picture.pts, picture.time_base = number, Fraction(1, 5)
                container.mux(video.encode(picture))
            container.mux(video.encode(None))
        for frame in _frames(samples, rate, audio):
            container.mux(audio.encode(frame))
        container.mux(audio.encode(None))
    return path


def _frames(samples: np.ndarray, rate: int, stream: av.AudioStream) -> list[av.AudioFrame]:
    """As many samples each as the codec takes, in its sample format."""
    whole = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=stream.layout.name)
    whole.sample_rate, whole.pts, whole.time_base = rate, 0, Fraction(1, rate)
    resampler = av.AudioResampler(format=stream.codec_context.format, layout=stream.layout, rate=rate)
    fifo = av.AudioFifo()
    for frame in [*resampler.resample(whole), *resampler.resample(None)]:
        fifo.write(frame)
    frames = []
    while (frame := fifo.read(stream.codec_context.frame_size or 1024, partial=True)) is not None:
        frames.append(frame)
    return frames


def cut_off(path: Path, share: float = 0.5) -> Path:
    """The beginning of a file, as a broken download leaves it."""
    content = path.read_bytes()
    cut = path.with_name(f"cut-{path.name}")
    cut.write_bytes(content[: int(share * len(content))])
    return cut
