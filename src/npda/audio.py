"""Sound to features: reading audio, Kaldi log-mel filter banks, CMVN, SpecAugment."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import kaldi_native_fbank
import numpy as np
import soundfile
import soxr

from npda.io.errors import InputError
from npda.io.files import atomic_write, audio_piece

if TYPE_CHECKING:
    from torch import Tensor

SAMPLE_RATE = 16_000
MEL_BINS = 80
MAX_FRAMES = 3_000

_BLOCK = 10  # seconds read at a time
_TAGS = 16_384  # bytes that may follow the sound of an mp3
_WINDOW = SAMPLE_RATE * 25 // 1000
_SHIFT = SAMPLE_RATE * 10 // 1000
_FFT = 512
_PREEMPHASIS = 0.97
_ENERGY_FLOOR = float(np.finfo(np.float32).eps)
_STD_FLOOR = 1e-5


def load(path: str | Path) -> np.ndarray:
    """Read audio as mono at 16 kHz, [samples] float32 between -1 and 1; channels are averaged.

    Whatever libsndfile reads is read: wav, flac, ogg (vorbis, opus), mp3. "talk.wav:offset:length" reads a
    piece, counted in samples of the file's own rate, as the manifests of fairseq S2T name it.
    """
    waveform = np.concatenate([*stream(path), np.empty(0, np.float32)])
    if len(waveform) < _WINDOW:
        milliseconds = 1000 * len(waveform) / SAMPLE_RATE
        raise InputError(f"{path} lasts {milliseconds:.0f} ms, which is too short: features need 25 ms.")
    return waveform


def stream(path: str | Path) -> Iterator[np.ndarray]:
    """What `load` reads, sample by sample the same, in blocks of about ten seconds: [samples] float32 each."""
    with _opened(path) as (sound, left):
        rate = sound.samplerate
        resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1) if rate != SAMPLE_RATE else None
        while left > 0:
            block = sound.read(min(left, _BLOCK * rate), dtype="float32", always_2d=True).mean(axis=1)
            # A file that was cut off promises more samples than it has.
            left = left - len(block) if len(block) else 0
            if not np.isfinite(block).all():
                raise InputError(f"{path} holds samples that are no numbers (NaN or infinity); export the audio again.")
            yield block if resampler is None else resampler.resample_chunk(block, last=left == 0)
        if sound.tell() >= sound.frames and _unread(sound) > _TAGS:
            raise InputError(
                f"{path} is longer than the {sound.frames / rate:.0f} s that were read: an mp3 of varying bit rate "
                "that does not say how long it is; rewrite it, for example with ffmpeg -i OLD.mp3 -c copy NEW.mp3."
            )


def duration(path: str | Path) -> float:
    """Seconds of audio, as the file says of itself."""
    with _opened(path) as (sound, length):
        return length / sound.samplerate


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[soundfile.SoundFile, int]]:
    """A file at the first sample that `path` names, and how many samples of its own rate those are."""
    file, offset, length = audio_piece(path)
    if not file.is_file():
        raise InputError(f"There is no audio file {file}.")
    try:
        with ExitStack() as stack:
            # By its descriptor, so that `_unread` can see how far an mp3 was read.
            by_descriptor = file.suffix.lower() == ".mp3"
            source = stack.enter_context(open(file, "rb")).fileno() if by_descriptor else file
            sound = stack.enter_context(soundfile.SoundFile(source, closefd=not by_descriptor))
            if length is not None and offset + length > sound.frames:
                raise InputError(
                    f"{path} ends at sample {offset + length}, but {file} has only {sound.frames} samples; "
                    "offset and length count samples of the file's own rate."
                )
            sound.seek(offset)
            yield sound, sound.frames if length is None else length
    except (soundfile.SoundFileError, OSError, RuntimeError) as error:
        raise InputError(
            f"{file} cannot be read as audio ({error}); convert it, for example with ffmpeg, to wav or flac."
        ) from None


def _unread(sound: soundfile.SoundFile) -> int:
    """Bytes behind what was read of an mp3: libsndfile guesses the length if no Xing header tells, and stops there."""
    if not isinstance(sound.name, int):
        return 0
    return os.fstat(sound.name).st_size - os.lseek(sound.name, 0, os.SEEK_CUR)


def frame_count(samples: int) -> int:
    """How many frames `fbank` makes of so many samples at 16 kHz; only whole windows count."""
    return 0 if samples < _WINDOW else 1 + (samples - _WINDOW) // _SHIFT


def fbank(waveform: np.ndarray) -> np.ndarray:
    """Kaldi's log-mel filter bank of [samples] at 16 kHz: [frames, 80] float32, not normalised.

    Windows of 25 ms every 10 ms, scaled as 16-bit samples, without dither. Window and filters come from
    kaldi-native-fbank; the frames are computed all at once, several times faster than by its OnlineFbank,
    which takes every sample and gives every frame as a Python object. In double precision, since Kaldi's
    single precision is off by some 0.003 in bands that hold next to no energy.
    """
    if waveform.ndim != 1 or len(waveform) < _WINDOW:
        raise ValueError(f"fbank needs [samples] of at least {_WINDOW}, not {list(waveform.shape)}")
    windows = np.lib.stride_tricks.sliding_window_view(waveform, _WINDOW)[::_SHIFT]
    # Ten seconds at a time keep an hour of speech within a few megabytes.
    return np.concatenate([_log_mel(windows[first : first + 1000]) for first in range(0, len(windows), 1000)])


def _log_mel(windows: np.ndarray) -> np.ndarray:
    """Log-mel energies of windows: [frames, 400] → [frames, 80]."""
    window, bands = _kaldi()
    frames = windows * 32768.0
    frames -= frames.mean(axis=1, keepdims=True)
    # Each window is emphasised on its own; its first sample precedes itself.
    emphasised = frames * window
    emphasised[:, 1:] -= _PREEMPHASIS * frames[:, :-1] * window[1:]
    emphasised[:, 0] *= 1 - _PREEMPHASIS
    spectrum = np.fft.rfft(emphasised, _FFT)
    power = np.ascontiguousarray((spectrum.real**2 + spectrum.imag**2).T)
    energies = np.empty((MEL_BINS, len(windows)))
    # A band holds a few of the 257 bins. One product with the whole matrix would not only be mostly zeros: it
    # is large enough for BLAS to share it among threads, which on a busy machine takes a hundred times longer.
    for row, (bins, weights) in zip(energies, bands, strict=True):
        np.matmul(weights, power[bins], out=row)
    return np.log(np.maximum(energies.T, _ENERGY_FLOOR)).astype(np.float32, order="C")


@cache
def _kaldi() -> tuple[np.ndarray, list[tuple[slice, np.ndarray]]]:
    """Kaldi's window [400], and of each of the 80 mel bands the bins it covers with their weights."""
    options = kaldi_native_fbank.FbankOptions()
    options.mel_opts.num_bins = MEL_BINS
    window = kaldi_native_fbank.FeatureWindowFunction(options.frame_opts).window
    banks = kaldi_native_fbank.MelBanks  # pyright: ignore[reportAttributeAccessIssue] (not in its stubs)
    bands = []
    for filter_ in banks(options.mel_opts, options.frame_opts).get_matrix().astype(np.float64):
        covered = np.flatnonzero(filter_)
        bins = slice(int(covered[0]), int(covered[-1]) + 1)
        bands.append((bins, filter_[bins]))
    return np.array(window, dtype=np.float64), bands


@dataclass(frozen=True, eq=False)
class Normalizer:
    """Cepstral mean and variance normalisation: global, or of each utterance when there are no statistics."""

    mean: np.ndarray | None = None  # [80] float32
    std: np.ndarray | None = None  # [80] float32

    @classmethod
    def fit(cls, features: Iterable[np.ndarray]) -> "Normalizer":
        """Global statistics of a stream of [frames, 80]."""
        count, total, squares = 0, np.zeros(MEL_BINS), np.zeros(MEL_BINS)
        for utterance in features:
            utterance = utterance.astype(np.float64)
            count += len(utterance)
            total += utterance.sum(axis=0)
            squares += (utterance**2).sum(axis=0)
        if count == 0:
            raise InputError("There is no speech to take the mean and variance of the features from.")
        mean = total / count
        variance = np.maximum(squares / count - mean**2, _STD_FLOOR**2)
        return cls(mean.astype(np.float32), np.sqrt(variance).astype(np.float32))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Normalise [frames, 80]; the result is float32."""
        mean, std = self.mean, self.std
        if mean is None or std is None:
            mean, std = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
            std = np.maximum(std, _STD_FLOOR)
        return ((features - mean) / std).astype(np.float32)

    def save(self, directory: str | Path) -> None:
        """Write preprocessor_config.json, which transformers' Speech2TextFeatureExtractor opens too.

        transformers has no global statistics: they are extra entries, and its own normalisation is off.
        """
        config = {
            "feature_extractor_type": "Speech2TextFeatureExtractor",
            "processor_class": "Speech2TextProcessor",
            "feature_size": MEL_BINS,
            "num_mel_bins": MEL_BINS,
            "sampling_rate": SAMPLE_RATE,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": True,
            "dither": 0.0,
            "do_ceptral_normalize": self.mean is None,
            "normalize_means": True,
            "normalize_vars": True,
        }
        if self.mean is not None and self.std is not None:
            config |= {"global_mean": self.mean.tolist(), "global_std": self.std.tolist()}
        with atomic_write(Path(directory) / "preprocessor_config.json") as temporary:
            temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: str | Path) -> "Normalizer":
        """Read what `save` or transformers wrote, be it a feature extractor's file or a processor's."""
        path, config = _feature_config(Path(directory))
        if (config.get("num_mel_bins"), config.get("sampling_rate")) != (MEL_BINS, SAMPLE_RATE):
            raise InputError(f"{path}: only {MEL_BINS} mel bins at {SAMPLE_RATE} Hz are supported.")
        if config.get("do_ceptral_normalize", True):
            if not (config.get("normalize_means", True) and config.get("normalize_vars", True)):
                raise InputError(f"{path}: normalize_means and normalize_vars must both be true.")
            return cls()
        try:
            mean = np.array(config.get("global_mean", [0.0] * MEL_BINS), dtype=np.float32)
            std = np.array(config.get("global_std", [1.0] * MEL_BINS), dtype=np.float32)
        except (TypeError, ValueError):
            raise InputError(f"{path}: global_mean and global_std must be lists of numbers.") from None
        if mean.shape != (MEL_BINS,) or std.shape != (MEL_BINS,) or not (np.isfinite(mean).all() and (std > 0).all()):
            raise InputError(f"{path}: global_mean and global_std need {MEL_BINS} numbers each, std above 0.")
        return cls(mean, std)


def _feature_config(directory: Path) -> tuple[Path, dict]:
    path = directory / "preprocessor_config.json"
    nested = directory / "processor_config.json"
    try:
        if not path.is_file() and nested.is_file():
            path = nested
            config = json.loads(path.read_text(encoding="utf-8"))["feature_extractor"]
        else:
            config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{directory} has no preprocessor_config.json; is it the directory of a model?") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a feature extractor's configuration ({error}).") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a feature extractor's configuration.")
    return path, config


@dataclass(frozen=True)
class SpecAugment:
    """Masks random bands and stretches of the features (Park et al. 2019, without time warping)."""

    freq_masks: int = 1
    freq_width: int = 27  # a mask is narrower than this
    time_masks: int = 1
    time_width: int = 100  # a mask is shorter than this
    time_ratio: float = 1.0  # and than this share of the utterance

    @classmethod
    def lb(cls) -> "SpecAugment":
        """LibriSpeech basic."""
        return cls(freq_masks=1, freq_width=27, time_masks=1, time_width=100, time_ratio=1.0)

    @classmethod
    def ld(cls) -> "SpecAugment":
        """LibriSpeech double."""
        return cls(freq_masks=2, freq_width=27, time_masks=2, time_width=100, time_ratio=1.0)

    @classmethod
    def sm(cls) -> "SpecAugment":
        """Switchboard mild."""
        return cls(freq_masks=2, freq_width=15, time_masks=2, time_width=70, time_ratio=0.2)

    @classmethod
    def ss(cls) -> "SpecAugment":
        """Switchboard strong."""
        return cls(freq_masks=2, freq_width=27, time_masks=2, time_width=70, time_ratio=0.2)

    def __call__(self, features: "Tensor", lengths: "Tensor") -> "Tensor":
        """A copy of padded features [batch, frames, 80] with zeros, the mean after CMVN, in the masks.

        lengths: [batch]; padding is left alone. The draws come from torch's default generator on the CPU, so
        that a seed gives the same masks on every device.
        """
        import torch

        batch, frames, bins = features.shape
        lengths = lengths.to("cpu", torch.float64)
        bands = _stretches(
            self.freq_masks, torch.full((batch,), float(self.freq_width)), torch.full((batch,), bins), bins
        )
        limit = (lengths * self.time_ratio).floor().clamp(max=self.time_width)
        times = _stretches(self.time_masks, limit, lengths, frames)
        heard = torch.arange(frames) < lengths[:, None]
        masked = heard[:, :, None] & (bands[:, None, :] | times[:, :, None])
        return features.masked_fill(masked.to(features.device), 0.0)


def _stretches(count: int, limits: "Tensor", lengths: "Tensor", size: int) -> "Tensor":
    """Mark `count` random stretches per row, each shorter than limits [batch], within lengths [batch].

    Returns [batch, size] bool. Drawn in double precision: rounding must not reach the limit itself.
    """
    import torch

    draws = torch.rand(2, len(limits), count, dtype=torch.float64)
    widths = (draws[0] * limits[:, None]).floor()
    starts = (draws[1] * (lengths[:, None] - widths + 1)).floor()
    places = torch.arange(size)
    inside = (places >= starts[..., None]) & (places < (starts + widths)[..., None])
    return inside.any(dim=1)
