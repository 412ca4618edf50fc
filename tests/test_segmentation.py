"""Recordings are cut at pauses of known place, by both detectors, in bounded memory."""

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from npda import audio
from npda.corpus.synthesis import Espeak
from npda.io.errors import InputError
from npda.segmentation import Detector, Pauses, Stretch, best_detector, stretches
from npda.segmentation.cutting import Cutter
from npda.segmentation.detectors import FRAME, Loudness, has_silero
from npda.segmentation.silero import Silero

TEXTS = [
    "The floor is yours, and we are waiting for the answer.",
    "We opened the window and closed the door.",
    "Yes.",
    "Members of this house, I thank you for coming here so early.",
]
PAUSES = [0.9, 1.2, 1.0, 2.0]

detectors = pytest.mark.parametrize(
    "detector",
    [
        pytest.param(
            Silero, marks=pytest.mark.skipif(not has_silero(), reason="silero-vad is not installed: the extra vad")
        ),
        Loudness,
    ],
)


class Scripted:
    """Hears speech where a sample of the frame is 1."""

    name = "script"

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        return (frames.max(axis=1) == 1).astype(np.float32) if len(frames) else np.empty(0)


def scripted(frames: list[bool] | np.ndarray, block: int = 5_000, **changes) -> list[Stretch]:
    """The stretches of a recording in which only these frames are spoken."""
    waveform = np.repeat(np.asarray(frames, dtype=np.float32), FRAME)
    cutter = Cutter(Scripted(), Pauses(**changes))
    found = [s for place in range(0, len(waveform), block) for s in cutter.hear(waveform[place : place + block])]
    return [*found, *cutter.finish()]


def frames_of(stretch: Stretch) -> tuple[int, int]:
    return round(stretch.start * audio.SAMPLE_RATE / FRAME), round(stretch.end * audio.SAMPLE_RATE / FRAME)


@pytest.fixture(scope="module")
def talk(tmp_path_factory) -> tuple[Path, list[tuple[float, float]]]:
    """Sentences with silence after each, at 44.1 kHz, and where they are."""
    espeak = Espeak()
    spoken = [espeak.speak(text) for text in TEXTS]
    pieces, times, place = [np.zeros(8_000)], [], 8_000
    for samples, pause in zip(spoken, PAUSES, strict=True):
        loud = np.flatnonzero(np.abs(samples) > 0.02)
        times.append(((place + loud[0]) / audio.SAMPLE_RATE, (place + loud[-1]) / audio.SAMPLE_RATE))
        pieces += [samples, np.zeros(round(pause * audio.SAMPLE_RATE))]
        place += len(samples) + len(pieces[-1])
    waveform = np.concatenate(pieces) + np.random.default_rng(0).normal(scale=0.002, size=place)
    path = tmp_path_factory.mktemp("talk") / "talk.mp3"
    soundfile.write(path, soxr.resample(waveform, audio.SAMPLE_RATE, 44_100), 44_100)
    return path, times


def test_a_stretch_knows_where_its_samples_stand():
    frames = np.zeros(200, dtype=bool)
    frames[[*range(20, 60), *range(100, 140), *range(190, 200)]] = True
    waveform = np.repeat(frames.astype(np.float32), FRAME)
    found = scripted(frames)
    assert len(found) == 3
    for stretch in found:
        np.testing.assert_array_equal(stretch.samples, waveform[stretch.first : stretch.first + len(stretch.samples)])
        assert 0 < stretch.samples.mean() < 1


@detectors
def test_sentences_are_found_where_they_were_spoken(detector, talk):
    path, times = talk
    found = list(stretches(path, detector=detector()))
    assert len(found) == len(times)
    whole = audio.load(path)
    for stretch, (start, end) in zip(found, times, strict=True):
        assert stretch.start == pytest.approx(start, abs=0.2)
        assert stretch.end == pytest.approx(end, abs=0.2)
        # The samples are those of the recording, with silence on both sides.
        first = round(stretch.start * audio.SAMPLE_RATE) - round(0.3 * audio.SAMPLE_RATE / FRAME) * FRAME
        np.testing.assert_array_equal(stretch.samples, whole[first : first + len(stretch.samples)])
        assert 0.5 < len(stretch.samples) / audio.SAMPLE_RATE - (stretch.end - stretch.start) <= 0.6


@detectors
@pytest.mark.parametrize("loudness", [0.0, 1e-4, 0.02])
def test_there_is_no_speech_in_silence_or_steady_noise(detector, loudness: float, tmp_path):
    noise = np.random.default_rng(0).normal(scale=loudness, size=5 * audio.SAMPLE_RATE)
    soundfile.write(tmp_path / "noise.wav", noise, audio.SAMPLE_RATE)
    assert list(stretches(tmp_path / "noise.wav", detector=detector())) == []


@pytest.mark.skipif(not has_silero(), reason="silero-vad is not installed: the extra vad")
def test_silero_is_preferred_and_leaves_the_threads_alone():
    """Importing silero-vad sets the number of threads of the process to one."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        detector = best_detector()
        assert detector.name == "silero-vad"
        detector(np.zeros((2, FRAME), np.float32))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not has_silero(), reason="silero-vad is not installed: the extra vad")
def test_silero_says_what_the_package_says(talk):
    """The package's own model goes frame by frame; ours takes blocks of any size, and two recordings by turns."""
    before = torch.get_num_threads()
    import silero_vad

    torch.set_num_threads(before)
    model: Any = silero_vad.load_silero_vad()
    spoken = audio.load(talk[0])[: 4 * audio.SAMPLE_RATE]
    frames = spoken[: len(spoken) // FRAME * FRAME].reshape(-1, FRAME)
    with torch.inference_mode():
        theirs = np.array([model(frame, audio.SAMPLE_RATE).item() for frame in torch.from_numpy(frames)])
    assert theirs.max() > 0.9
    detector, other = Silero(), Silero()
    ours = []
    for block in np.split(frames, [1, 3, 20]):
        ours.append(detector(block))
        other(block[::-1])
    np.testing.assert_allclose(np.concatenate(ours), theirs, atol=1e-5)


def test_without_silero_loudness_decides(monkeypatch):
    monkeypatch.setattr("npda.segmentation.detectors.has_silero", lambda: False)
    assert best_detector().name == "loudness"


def test_short_pauses_do_not_cut_and_clicks_are_no_speech():
    spoken = np.zeros(200, dtype=bool)
    spoken[20:40] = spoken[50:60] = True  # ten frames, 0.32 s, between them
    spoken[100:102] = True  # 0.064 s
    spoken[150:160] = True
    assert [frames_of(stretch) for stretch in scripted(spoken)] == [(20, 60), (150, 160)]


def test_endless_speech_is_cut_in_its_longest_pause():
    """At most 4 s, of which 0.6 s may be padding: 107 frames at a time."""
    spoken = np.ones(150, dtype=bool)
    spoken[20:30] = False  # longer, but in the first half
    spoken[70:72] = False
    spoken[80:84] = False
    spoken[100:103] = False
    first, second = scripted(spoken, longest=4)
    assert (frames_of(first), frames_of(second)) == ((0, 80), (84, 150))
    # Half of the pause goes to either side.
    assert len(first.samples) == 82 * FRAME
    assert len(second.samples) == 68 * FRAME


def test_endless_speech_without_a_pause_is_cut_where_it_is_quietest():
    waveform = np.random.default_rng(0).uniform(-0.5, 0.5, size=150 * FRAME).astype(np.float32)
    waveform[90 * FRAME : 93 * FRAME] *= 0.1

    class Always:
        name = "always"

        def __call__(self, frames: np.ndarray) -> np.ndarray:
            return np.ones(len(frames))

    cutter = Cutter(Always(), Pauses(longest=4))
    first, second = *cutter.hear(waveform), *cutter.finish()
    assert (frames_of(first), frames_of(second)) == ((0, 91), (91, 150))
    np.testing.assert_array_equal(np.concatenate([first.samples, second.samples]), waveform)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=20), st.integers(100, 20_000))
def test_whatever_is_spoken_is_in_one_stretch_and_fits(runs: list[tuple[bool, int]], block: int):
    spoken = np.array([speech for speech, length in runs for _ in range(length)], dtype=bool)
    found = scripted(spoken, block, longest=3, shortest=0.0)
    covered = np.zeros(len(spoken), dtype=int)
    for stretch in found:
        start, end = frames_of(stretch)
        assert spoken[start]
        assert spoken[end - 1]
        covered[start:end] += 1
        assert len(stretch.samples) <= 3 * audio.SAMPLE_RATE
        assert (stretch.samples.reshape(-1, FRAME).max(axis=1) == 1).sum() == spoken[start:end].sum()
    assert (covered[spoken] == 1).all()
    assert covered.max(initial=0) <= 1
    assert all(b.start >= a.end for a, b in pairwise(found))
    # Every pause of 0.6 s is a cut.
    for stretch in found:
        start, end = frames_of(stretch)
        gaps = np.diff(np.flatnonzero(spoken[start:end])) - 1
        assert gaps.max(initial=0) < 0.6 * audio.SAMPLE_RATE / FRAME


def test_ten_minutes_take_no_more_memory_than_one(talk, tmp_path):
    """48 kHz in stereo, 220 MB in memory if it were read at once."""
    samples = soundfile.read(talk[0], dtype="int16")[0]
    with soundfile.SoundFile(tmp_path / "long.flac", "w", 48_000, 2, compression_level=0.0) as file:
        while file.frames < 600 * 48_000:
            file.write(np.stack([samples, samples], axis=1))
    tracemalloc.start()
    try:
        count = sum(1 for _ in stretches(tmp_path / "long.flac", detector=Loudness()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    repetitions = 600 * 48_000 / len(samples)
    assert count == pytest.approx(repetitions * len(TEXTS), abs=len(TEXTS))
    assert peak < 25_000_000


def test_stretches_come_before_the_recording_is_read_to_its_end(monkeypatch):
    def hours(_path):
        for block in range(10_000):
            assert block < 5, "the reader ran ahead"
            yield np.tile(np.repeat(np.array([1, 0], np.float32), 40 * FRAME), 4)

    monkeypatch.setattr(audio, "stream", hours)
    found = stretches("never-ending.wav", detector=Scripted())
    assert [frames_of(next(found)) for _ in range(8)] == [(80 * i, 80 * i + 40) for i in range(8)]


def test_a_file_that_breaks_off_is_heard_up_to_there(talk, tmp_path):
    broken = tmp_path / "broken.mp3"
    content = talk[0].read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    found = []
    with pytest.raises(audio.CutOff, match="is cut off"):
        found.extend(stretch for stretch in stretches(broken, detector=Loudness()))
    assert 1 <= len(found) < len(TEXTS)
    assert found[0].start == pytest.approx(talk[1][0][0], abs=0.2)


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "broken.wav").write_bytes(b"RIFF but not really")
    for name in ("broken.wav", "none.wav"):
        with pytest.raises(InputError, match=name):
            next(stretches(tmp_path / name, detector=Loudness()))


@pytest.mark.parametrize(
    "changes", [{"padding": 0.4}, {"padding": -0.1}, {"longest": 1.2}, {"ends": 0.6}, {"begins": 1.5}]
)
def test_impossible_settings_are_refused(changes: dict[str, float]):
    with pytest.raises(ValueError, match=r"cannot|no room"):
        Pauses(**changes)


def test_both_detectors_keep_the_protocol():
    detector: Detector = Loudness()
    assert detector(np.zeros((0, FRAME), np.float32)).shape == (0,)
    if has_silero():
        detector = Silero()
        assert detector(np.zeros((0, FRAME), np.float32)).shape == (0,)
        assert detector(np.zeros((3, FRAME), np.float32)).shape == (3,)


def test_a_cut_lies_behind_what_is_kept_whole():
    """The longest pause comes before, so that the next best is taken."""
    frames = np.ones(120, bool)
    frames[50:60] = frames[80:83] = False
    assert frames_of(scripted(frames, longest=4.0)[0])[1] == 50
    assert frames_of(scripted(frames, longest=4.0, whole=0.6)[0])[1] == 80
    assert frames_of(scripted(np.ones(120, bool), longest=4.0, whole=0.9)[0])[1] > 0.9 * (4.0 - 0.6) * 16_000 / FRAME
    with pytest.raises(ValueError, match="whole"):
        Pauses(whole=1.0)


@given(st.lists(st.booleans(), max_size=120), st.sampled_from([160, 512, 3000]))
def test_the_stretch_that_is_spoken_is_what_will_be_handed_over(frames: list[bool], block: int):
    waveform = np.repeat(np.asarray(frames, dtype=np.float32), FRAME)
    cutter, last = Cutter(Scripted(), Pauses(longest=100.0)), None
    for place in range(0, len(waveform), block):
        for stretch in cutter.hear(waveform[place : place + block]):
            if block <= FRAME:
                assert last is not None
                assert (last.start, last.end) == (stretch.start, stretch.end)
                np.testing.assert_array_equal(last.samples, stretch.samples)
        spoken = cutter.speaking()
        last = spoken if cutter.settled else None
        if spoken is not None:
            assert spoken.end > spoken.start
            assert len(spoken.samples) / audio.SAMPLE_RATE >= spoken.end - spoken.start
