"""espeak-ng: the same arguments give the same samples, whatever was said before."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from npda.audio import SAMPLE_RATE
from npda.corpus.mini.speech import VOICES
from npda.corpus.synthesis import Espeak
from npda.io.errors import InputError

TEXTS = ("she sees six chairs and a fish", "the committee adopts the report", "where is the old doctor?")


@pytest.fixture(scope="module")
def espeak() -> Espeak:
    return Espeak()


@pytest.mark.parametrize("voice", [*VOICES, "en-us+klatt2"])
def test_speech_depends_on_the_arguments_alone(espeak, voice):
    forwards = [espeak.speak(text, voice, 300, 45) for text in TEXTS]
    backwards = [espeak.speak(text, voice, 300, 45) for text in reversed(TEXTS)]
    for one, other in zip(forwards, reversed(backwards), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(Espeak().speak(TEXTS[0], voice, 300, 45), forwards[0])


def test_the_noise_of_a_breathy_voice_is_not_seeded_by_the_clock(espeak):
    before = espeak.speak(TEXTS[0], "en-us+f3", 300, 50)
    time.sleep(1.1)
    np.testing.assert_array_equal(espeak.speak(TEXTS[0], "en-us+f3", 300, 50), before)


@pytest.mark.parametrize("synthesizers", [1, 3])
def test_speech_from_several_threads(espeak, synthesizers):
    """Four threads that share one Espeak, or three: no copy of the library hears another."""
    arguments = [(text, voice, 300, 50) for text in TEXTS for voice in VOICES]
    alone = [espeak.speak(*each) for each in arguments]
    speakers = cycle([Espeak() for _ in range(synthesizers)])
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda each, speaker: speaker.speak(*each), arguments, speakers))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def fundamental(waveform: np.ndarray) -> float:
    """The median pitch in Hz, from the autocorrelation of 40 ms windows between 60 and 400 Hz."""
    pitches = []
    for start in range(0, len(waveform) - 640, 160):
        window = waveform[start : start + 640] * np.hanning(640)
        if np.sqrt((window**2).mean()) < 0.02:
            continue
        correlation = np.correlate(window, window, "full")[639:]
        lag = 40 + int(np.argmax(correlation[40:267]))
        if correlation[lag] > 0.5 * correlation[0]:
            pitches.append(SAMPLE_RATE / lag)
    return float(np.median(pitches))


def test_voice_rate_and_pitch_are_heard(espeak):
    text = "my sister buys a small green boat every morning"
    plain = espeak.speak(text, "en-us", 300, 50)
    assert plain.dtype == np.float32
    assert 1.0 < len(plain) / SAMPLE_RATE < 2.5
    assert 0.1 < np.abs(plain).max() <= 1.0
    assert len(espeak.speak(text, "en-us", 150, 50)) > 1.6 * len(plain)
    assert fundamental(espeak.speak(text, "en-us", 300, 90)) > 1.2 * fundamental(plain)
    assert fundamental(espeak.speak(text, "en-us+f3", 300, 50)) > 1.3 * fundamental(plain)
    # No long silence at either end.
    for voice in VOICES:
        loud = np.flatnonzero(np.abs(espeak.speak(text, voice, 300, 50)) > 1e-3)
        assert loud[0] < 0.05 * SAMPLE_RATE
        assert len(espeak.speak(text, voice, 300, 50)) - loud[-1] < 0.1 * SAMPLE_RATE


def test_voices_differ(espeak):
    spoken = {espeak.speak(TEXTS[1], voice, 300, 50).tobytes() for voice in VOICES}
    assert len(spoken) == len(VOICES)
    assert espeak.speak("schön", "de").tobytes() != espeak.speak("schön", "en-us").tobytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("hello", "xx"), "no voice 'xx'"),
        (("hello", "en-us+nobody"), "no voice 'en-us\\+nobody'"),
        (("hello", "en-us+"), "no voice"),
        (("hello", "../en"), "no voice"),
        ((" ",), "no text"),
        (("hello", "en-us", 20), "rate of 80 to 450"),
        (("hello", "en-us", 200, 100), "pitch of 0 to 99"),
    ],
)
def test_wrong_arguments_are_named(espeak, arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        espeak.speak(*arguments)


def test_the_links_go_with_the_synthesizer():
    espeak = Espeak()
    home = Path(espeak._home.name)
    assert home.is_dir()
    del espeak
    assert not home.exists()
