"""Sound to features: Kaldi log-mel filter banks and their normalisation."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kaldi_native_fbank
import numpy as np

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.records import read_json

SAMPLE_RATE = 16_000
MEL_BINS = 80
MAX_FRAMES = 3_000
WINDOW = SAMPLE_RATE * 25 // 1000  # samples

_SHIFT = SAMPLE_RATE * 10 // 1000
_FFT = 512
_PREEMPHASIS = 0.97
_ENERGY_FLOOR = float(np.finfo(np.float32).eps)
_STD_FLOOR = 1e-5


def frame_count(samples: int) -> int:
    """How many frames `fbank` makes of so many samples at 16 kHz; only whole windows count."""
    return 0 if samples < WINDOW else 1 + (samples - WINDOW) // _SHIFT


def fbank(waveform: np.ndarray) -> np.ndarray:
    """Kaldi's log-mel filter bank of [samples] at 16 kHz: [frames, 80] float32, not normalised.

    Windows of 25 ms every 10 ms, scaled as 16-bit samples, without dither. Window and filters come from
    kaldi-native-fbank; the frames are computed all at once, several times faster than by its OnlineFbank,
    which takes every sample and gives every frame as a Python object. In double precision, since Kaldi's
    single precision is off by some 0.003 in bands that hold next to no energy.
    """
    if waveform.ndim != 1 or len(waveform) < WINDOW:
        raise ValueError(f"fbank needs [samples] of at least {WINDOW}, not {list(waveform.shape)}")
    windows = np.lib.stride_tricks.sliding_window_view(waveform, WINDOW)[::_SHIFT]
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
            config = read_json(path)["feature_extractor"]
        else:
            config = read_json(path)
    except FileNotFoundError:
        raise InputError(f"{directory} has no preprocessor_config.json; is it the directory of a model?") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a feature extractor's configuration ({error}).") from None
    if not isinstance(config, dict):
        raise InputError(f"{path} is not a feature extractor's configuration.")
    return path, config
