"""Where nobody speaks, nothing is written, whatever a model would have made of it."""

from pathlib import Path

import numpy as np
import pytest
import said
import soundfile
import tiny

from npda.segmentation import Detector, best_detector, holds_speech
from npda.segmentation.detectors import Loudness, has_silero
from npda.translator import Translator

RANDOM = np.random.default_rng(0)
NOTHING = {
    "digital silence": np.zeros(48_000),
    "a moment of silence": np.zeros(500),
    "ten seconds of room": RANDOM.normal(scale=1e-3, size=160_000),
    "white noise": RANDOM.normal(scale=0.1, size=48_000),
    "loud noise, one second": RANDOM.normal(scale=0.3, size=16_000).clip(-1, 1),
    "hum": 0.2 * np.sin(2 * np.pi * 50 * np.arange(48_000) / 16_000),
    "a click": np.r_[np.zeros(24_000), np.full(200, 0.9), np.zeros(24_000)],
}
DETECTORS = [
    pytest.param(best_detector, marks=pytest.mark.skipif(not has_silero(), reason="silero-vad is not installed")),
    Loudness,
]


@pytest.mark.parametrize("ear", DETECTORS)
@pytest.mark.parametrize("name", NOTHING)
def test_silence_and_noise_give_no_text(name: str, ear: type[Detector]):
    sound = NOTHING[name].astype(np.float32)
    model = tiny.backbone()
    assert Translator(model).translate(sound).text  # what the model would have made of it
    found = Translator(model, ear=ear).translate(sound)
    assert (found.text, found.retried, found.tokens) == ("", "no speech", ())
    assert found.duration == len(sound) / 16_000


@pytest.mark.parametrize("ear", DETECTORS)
def test_speech_is_translated_however_short_or_soft_and_wherever_it_begins(ear: type[Detector]):
    speech = said.speech(48_000)
    late = np.concatenate([np.zeros(160_000, np.float32), speech])
    for sound in (speech, 0.05 * speech, speech[:12_000], late):
        assert holds_speech(sound, ear())
    model = tiny.backbone()
    assert Translator(model, ear=ear).translate(speech) == Translator(model).translate(speech)


def test_inputs_without_speech_keep_their_place(tmp_path: Path):
    sounds = {"a": said.speech(16_000), "b": np.zeros(16_000), "c": said.speech(20_000)}
    for name, sound in sounds.items():
        soundfile.write(tmp_path / f"{name}.wav", sound, 16_000)
    tiny.backbone().save_pretrained(tmp_path / "model")
    translator = Translator.from_pretrained(tmp_path / "model")
    found = [t for t in translator.translate_all(tmp_path / f"{name}.wav" for name in sounds) if t is not None]
    assert [t.retried == "no speech" for t in found] == [False, True, False]
    assert [bool(t.text) for t in found] == [True, False, True]
