"""Speech for tests that listen before they translate."""

from functools import cache

import numpy as np

from npda.corpus.voices import voice


@cache
def _said() -> np.ndarray:
    return voice("espeak:en-us").speak("The floor is yours, and the window is open now.")


def speech(samples: int) -> np.ndarray:
    """So many samples of somebody who speaks on and on: [samples] float32 at 16 kHz."""
    return np.resize(_said(), samples).astype(np.float32)
