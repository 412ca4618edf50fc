"""From a recording to what a backbone hears."""

from __future__ import annotations

import numpy as np

from npda import audio
from npda.io.errors import InputError
from npda.models.backbone import Backbone


def features_of(backbone: Backbone, waveform: np.ndarray, name: str = "") -> np.ndarray:
    """The features of a whole recording, which is refused if the model has no room for it.

    waveform: [samples] float32 at 16 kHz; name: of its file → [frames, bins]
    """
    features = backbone.features(waveform)
    if len(features) > backbone.max_frames:
        raise InputError(
            f"{name or 'The audio'} is {len(waveform) / audio.SAMPLE_RATE:.0f} s long, this model takes at most "
            f"{backbone.max_frames / 100:.0f} s: cut it into sentences; npda translate and "
            "Translator.translate_long do so at its pauses."
        )
    return features
