"""Audio: files to samples, samples to features.

``load`` and ``stream`` read any file that libsndfile or FFmpeg opens as mono at 16 kHz; ``fbank`` and ``Normalizer``
turn samples into features; ``SpecAugment`` masks them in training.
"""

from npda.audio.features import MAX_FRAMES, MEL_BINS, SAMPLE_RATE, WINDOW, Normalizer, fbank, frame_count
from npda.audio.reading import SUFFIXES, duration, length, load, stream
from npda.audio.sound import CutOff
from npda.audio.spec_augment import SpecAugment

__all__ = [
    "MAX_FRAMES",
    "MEL_BINS",
    "SAMPLE_RATE",
    "SUFFIXES",
    "WINDOW",
    "CutOff",
    "Normalizer",
    "SpecAugment",
    "duration",
    "fbank",
    "frame_count",
    "length",
    "load",
    "stream",
]
