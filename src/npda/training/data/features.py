"""Features of utterances: in memory where they fit, computed anew where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npda import audio
from npda.corpus.manifest import Utterance
from npda.io.errors import InputError
from npda.io.progress import track

MEMORY = 2 * 1024**3  # bytes of features kept by default: seven hours of speech


class FeatureStore:
    """compute(samples [n] float32) → [frames, bins], for each utterance."""

    def __init__(
        self,
        utterances: Sequence[Utterance],
        compute: Callable[[np.ndarray], np.ndarray],
        memory: int = MEMORY,
        progress: bool = False,
    ) -> None:
        self._compute = compute
        self._kept: dict[str, np.ndarray] = {}
        if sum(u.n_frames for u in utterances) * audio.MEL_BINS * 4 <= memory:
            for utterance in track(utterances, "computing features", len(utterances), progress):
                self._kept[utterance.audio] = self[utterance]

    def __getitem__(self, utterance: Utterance) -> np.ndarray:
        """[frames, bins] float32"""
        kept = self._kept.get(utterance.audio)
        if kept is not None:
            return kept
        features = self._compute(audio.load(utterance.audio))
        # Batches are planned by n_frames; where it is far too small they would exhaust the memory.
        if abs(len(features) - utterance.n_frames) > 10 + utterance.n_frames // 10:
            raise InputError(
                f"{utterance.audio} has {len(features)} frames of 10 ms, but n_frames of {utterance.id!r} in "
                f"the manifest is {utterance.n_frames}; correct it or make the manifest again."
            )
        return features

    def then(self, transform: Callable[[np.ndarray], np.ndarray]) -> FeatureStore:
        """The same store with every feature matrix transformed; what is kept is not computed twice."""
        compute = self._compute
        store = FeatureStore([], lambda waveform: transform(compute(waveform)))
        store._kept = {name: transform(features) for name, features in self._kept.items()}
        return store
