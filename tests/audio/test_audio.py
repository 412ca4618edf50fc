"""Audio and features, against kaldi-native-fbank's own extractor and transformers'."""

import json

import kaldi_native_fbank
import numpy as np
import pytest
import soundfile
import soxr
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Speech2TextFeatureExtractor

from npda.audio import MEL_BINS, SAMPLE_RATE, Normalizer, SpecAugment, duration, fbank, frame_count, load, stream
from npda.io.errors import InputError


def tone(rate: int = SAMPLE_RATE, seconds: float = 0.5, pitch: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * pitch * np.arange(int(rate * seconds)) / rate)).astype(np.float32)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Noise in bursts, 16-bit as in a file: loud and quiet stretches like speech has, 12 seconds."""
    rng = np.random.default_rng(0)
    loudness = np.repeat(rng.uniform(0, 0.2, 120) ** 2, 1600)
    return np.round(rng.standard_normal(len(loudness)) * loudness * 32768).astype(np.float32) / 32768


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.wav", {}),
        ("a.flac", {}),
        ("a.ogg", {"format": "OGG", "subtype": "VORBIS"}),
        ("a.opus", {"format": "OGG", "subtype": "OPUS"}),
        ("a.mp3", {"format": "MP3"}),
    ],
)
def test_load_every_format(tmp_path, name, options):
    soundfile.write(tmp_path / name, np.stack([tone(48_000), np.zeros(24_000)], axis=1), 48_000, **options)
    waveform = load(tmp_path / name)
    assert waveform.dtype == np.float32
    # An mp3 is padded to whole frames of its codec.
    assert len(waveform) == pytest.approx(8000, abs=800 if name == "a.mp3" else 2)
    spectrum = np.abs(np.fft.rfft(waveform[1000:7000] * np.hanning(6000)))
    assert np.argmax(spectrum) * SAMPLE_RATE / 6000 == pytest.approx(440, abs=3)
    # The other channel is silent, so the mean of the two is half as loud.
    assert np.abs(waveform[2000:6000]).max() == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100])
def test_load_resamples(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", tone(rate), rate, subtype="FLOAT")
    waveform = load(tmp_path / "a.wav")
    np.testing.assert_allclose(waveform[1000:7000], tone()[1000:7000], atol=2e-3)


def test_load_a_piece_in_samples_of_the_file(tmp_path):
    path = tmp_path / "talk.wav"
    soundfile.write(path, tone(8_000, 2.0), 8_000, subtype="FLOAT")
    assert len(load(f"{path}:4000:8000")) == SAMPLE_RATE
    soundfile.write(tmp_path / "same.wav", tone(seconds=1.0), SAMPLE_RATE, subtype="FLOAT")
    np.testing.assert_array_equal(load(f"{tmp_path / 'same.wav'}:1600:3200"), tone(seconds=1.0)[1600:4800])
    with pytest.raises(InputError, match=r"ends at sample 17000, but .*talk\.wav has only 16000 samples"):
        load(f"{path}:9000:8000")


def test_a_colon_in_a_name_is_no_piece(tmp_path):
    path = tmp_path / "at 10:30:15"
    soundfile.write(path, tone(), SAMPLE_RATE, format="WAV")
    assert len(load(path)) == 8000
    assert len(load(f"{path}:0:4000")) == 4000


def test_wrong_audio_is_named(tmp_path):
    (tmp_path / "text.wav").write_text("this is not audio")
    (tmp_path / "empty.wav").touch()
    (tmp_path / "numbers.raw").write_bytes(bytes(5000))
    soundfile.write(tmp_path / "none.wav", np.zeros(0), SAMPLE_RATE)
    soundfile.write(tmp_path / "short.wav", np.zeros(399), SAMPLE_RATE)
    soundfile.write(tmp_path / "nan.wav", np.array([0.0, np.nan] * 4000), SAMPLE_RATE, subtype="FLOAT")
    for name, complaint in [
        ("text.wav", "cannot be read as audio"),
        ("empty.wav", "cannot be read as audio"),
        ("numbers.raw", "has no sound"),
        ("none.wav", "too short"),
        ("short.wav", "lasts 25 ms, which is too short"),
        ("nan.wav", "not numbers"),
        ("missing.wav", "no audio file"),
        (".", "is a folder: name an audio file"),
    ]:
        with pytest.raises(InputError, match=complaint) as caught:
            load(tmp_path / name)
        assert str(tmp_path) in str(caught.value)
    soundfile.write(tmp_path / "enough.wav", np.zeros(400), SAMPLE_RATE)
    assert len(load(tmp_path / "enough.wav")) == 400


def test_fbank_agrees_with_kaldi(speech):
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = MEL_BINS
    extractor = kaldi_native_fbank.OnlineFbank(options)
    extractor.accept_waveform(SAMPLE_RATE, (speech * 32768).tolist())
    extractor.input_finished()
    expected = np.stack([extractor.get_frame(frame) for frame in range(extractor.num_frames_ready)])
    features = fbank(speech)
    assert features.dtype == np.float32
    assert features.shape == expected.shape == (frame_count(len(speech)), MEL_BINS)
    np.testing.assert_allclose(features, expected, atol=2e-3)


def test_fbank_agrees_with_transformers(speech):
    extractor = Speech2TextFeatureExtractor(do_ceptral_normalize=False)
    for waveform in (speech, tone(seconds=0.1) * 0.5 + speech[:1600], np.zeros(800, np.float32)):
        expected = extractor(waveform, sampling_rate=SAMPLE_RATE)["input_features"][0]
        np.testing.assert_allclose(fbank(waveform), expected, atol=1e-3)


@given(st.integers(0, 5000))
def test_frame_count(samples):
    if samples < 400:
        assert frame_count(samples) == 0
    else:
        assert len(fbank(np.zeros(samples, np.float32))) == frame_count(samples)


def test_utterance_cmvn_agrees_with_transformers(speech):
    expected = Speech2TextFeatureExtractor()(speech, sampling_rate=SAMPLE_RATE)["input_features"][0]
    features = Normalizer()(fbank(speech))
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, atol=1e-3)


def test_silence_stays_finite_under_cmvn():
    silence = fbank(np.zeros(16_000, np.float32))
    assert np.abs(Normalizer()(silence)).max() < 1e-3
    assert np.isfinite(Normalizer.fit([silence])(silence)).all()


def test_global_cmvn_of_a_stream():
    rng = np.random.default_rng(0)
    utterances = [rng.normal(12, 3, (frames, MEL_BINS)).astype(np.float32) for frames in (7, 100, 33)]
    together = np.concatenate(utterances).astype(np.float64)
    normalizer = Normalizer.fit(utterance for utterance in utterances)
    assert normalizer.mean is not None
    assert normalizer.std is not None
    np.testing.assert_allclose(normalizer.mean, together.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(normalizer.std, together.std(axis=0), rtol=1e-6)
    expected = (utterances[0] - together.mean(axis=0)) / together.std(axis=0)
    np.testing.assert_allclose(normalizer(utterances[0]), expected, atol=1e-5)
    with pytest.raises(InputError, match="no speech"):
        Normalizer.fit([])


def assert_same(one: Normalizer, other: Normalizer) -> None:
    for mine, theirs in ((one.mean, other.mean), (one.std, other.std)):
        assert mine is not None
        assert theirs is not None
        np.testing.assert_array_equal(mine, theirs)


def test_transformers_opens_what_is_saved(tmp_path, speech):
    normalizer = Normalizer.fit([fbank(speech)])
    normalizer.save(tmp_path)
    extractor = Speech2TextFeatureExtractor.from_pretrained(tmp_path)
    features = extractor(speech, sampling_rate=SAMPLE_RATE)["input_features"][0]
    np.testing.assert_allclose(features, fbank(speech), atol=1e-3)
    reopened = Normalizer.load(tmp_path)
    assert_same(reopened, normalizer)
    # Saved again by transformers, the statistics are still there.
    extractor.save_pretrained(tmp_path / "again")
    assert_same(Normalizer.load(tmp_path / "again"), normalizer)

    Normalizer().save(tmp_path)
    features = Speech2TextFeatureExtractor.from_pretrained(tmp_path)(speech, sampling_rate=SAMPLE_RATE)
    np.testing.assert_allclose(features["input_features"][0], Normalizer()(fbank(speech)), atol=1e-3)


def test_what_transformers_saves_is_opened(tmp_path):
    Speech2TextFeatureExtractor().save_pretrained(tmp_path / "each")
    assert Normalizer.load(tmp_path / "each").mean is None
    Speech2TextFeatureExtractor(do_ceptral_normalize=False).save_pretrained(tmp_path / "off")
    features = np.random.default_rng(0).normal(size=(5, MEL_BINS)).astype(np.float32)
    np.testing.assert_array_equal(Normalizer.load(tmp_path / "off")(features), features)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "has no preprocessor_config.json"),
        ("{", "not a feature extractor's configuration"),
        ("[]", "not a feature extractor's configuration"),
        ({"num_mel_bins": 40}, "only 80 mel bins"),
        ({"normalize_vars": False}, "normalize_vars must both be true"),
        ({"do_ceptral_normalize": False, "global_mean": [1.0]}, "80 numbers each"),
        ({"do_ceptral_normalize": False, "global_std": [0.0] * 80}, "std above 0"),
        ({"do_ceptral_normalize": False, "global_mean": "high"}, "lists of numbers"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path, content, complaint):
    if isinstance(content, dict):
        content = json.dumps({"num_mel_bins": 80, "sampling_rate": 16000} | content)
    if content is not None:
        (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(InputError, match=complaint):
        Normalizer.load(tmp_path)


def runs(marked: np.ndarray) -> list[int]:
    """The lengths of the stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], marked.astype(int), [0]])))
    return (edges[1::2] - edges[::2]).tolist()


@given(
    st.lists(st.integers(1, 150), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(0, 30),
    st.integers(0, 3),
    st.integers(0, 60),
    st.floats(0, 1),
    st.integers(0, 1000),
)
def test_spec_augment_keeps_its_limits(lengths, freq_masks, freq_width, time_masks, time_width, ratio, seed):
    torch.manual_seed(seed)
    augment = SpecAugment(freq_masks, freq_width, time_masks, time_width, ratio)
    features = torch.ones(len(lengths), max(lengths), MEL_BINS)
    masked = augment(features, torch.tensor(lengths)).numpy() == 0
    for row, length in zip(masked, lengths, strict=True):
        assert not row[length:].any()
        times, bands = row[:length].all(axis=1), row[:length].all(axis=0)
        # Nothing but whole bands and whole stretches is masked, unless time masks cover everything.
        np.testing.assert_array_equal(row[:length], times[:, None] | bands[None, :])
        if not times.all():
            assert len(runs(bands)) <= freq_masks
            assert bands.sum() <= freq_masks * max(freq_width - 1, 0)
        if not bands.all():
            assert len(runs(times)) <= time_masks
            assert times.sum() <= time_masks * max(min(time_width, int(length * ratio)) - 1, 0)


def test_spec_augment_is_drawn_from_the_seed_and_leaves_its_input():
    features = torch.randn(3, 200, MEL_BINS)
    before = features.clone()
    torch.manual_seed(1)
    first = SpecAugment.ld()(features, torch.tensor([200, 150, 90]))
    second = SpecAugment.ld()(features, torch.tensor([200, 150, 90]))
    torch.manual_seed(1)
    again = SpecAugment.ld()(features, torch.tensor([200, 150, 90]))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert torch.equal(features, before)
    changed = first != features
    assert changed.any()
    assert (first[changed] == 0).all()


def test_spec_augment_draws_every_width_and_place():
    """One mask of each kind over many rows: widths from 0 to one less than the limit, all places reached."""
    torch.manual_seed(0)
    features = torch.ones(4000, 20, MEL_BINS)
    lengths = torch.full((4000,), 20)
    bands = (SpecAugment(1, 5, 0, 0)(features, lengths)[:, 0] == 0).numpy()
    assert set(bands.sum(axis=1)) == {0, 1, 2, 3, 4}
    assert bands.any(axis=0).all()
    times = (SpecAugment(0, 0, 1, 100, 0.5)(features, lengths)[:, :, 0] == 0).numpy()
    assert set(times.sum(axis=1)) == set(range(10))
    assert times.any(axis=0).all()
    # Each width is as likely as any other: 400 of 4000, give or take 6 standard deviations.
    assert np.abs(np.bincount(times.sum(axis=1)) - 400).max() < 6 * 19


def test_presets():
    assert SpecAugment.lb() == SpecAugment(1, 27, 1, 100, 1.0)
    assert SpecAugment.ld() == SpecAugment(2, 27, 2, 100, 1.0)
    assert SpecAugment.sm() == SpecAugment(2, 15, 2, 70, 0.2)
    assert SpecAugment.ss() == SpecAugment(2, 27, 2, 70, 0.2)


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_a_stream_of_blocks_is_what_load_reads(rate, tmp_path):
    """Against soxr on the whole signal at once; a block is ten seconds."""
    noise = np.random.default_rng(0).normal(scale=0.1, size=(25 * rate + 7, 2)).astype(np.float32)
    path = tmp_path / "noise.wav"
    soundfile.write(path, noise, rate, subtype="FLOAT")
    blocks = list(stream(path))
    assert len(blocks) == 3
    whole = noise.mean(axis=1)
    expected = whole if rate == 16_000 else soxr.resample(whole, rate, 16_000)
    np.testing.assert_allclose(np.concatenate(blocks), expected, atol=1e-6)
    np.testing.assert_array_equal(load(path), np.concatenate(blocks))
    assert duration(path) == pytest.approx(25 + 7 / rate)
    assert duration(f"{path}:{rate}:{2 * rate}") == 2


def test_an_mp3_that_does_not_say_how_long_it_is_cannot_be_cut_short_unnoticed(tmp_path):
    """Without its first frame, the Info header, libsndfile takes the bit rate of the beginning for that of all."""
    random = np.random.default_rng(0)
    sound = np.concatenate([random.normal(scale=0.2, size=3 * 48_000), np.zeros(17 * 48_000)])
    whole = tmp_path / "whole.mp3"
    soundfile.write(whole, sound, 48_000, bitrate_mode="VARIABLE")
    assert len(load(whole)) == pytest.approx(20 * SAMPLE_RATE, abs=SAMPLE_RATE // 10)
    header, *frames = mp3_frames(whole.read_bytes())
    assert b"Xing" in header or b"Info" in header
    steady, headless = tmp_path / "steady.mp3", tmp_path / "headless.mp3"
    steady.write_bytes(b"".join(frames[-500:]))
    assert len(load(steady)) == pytest.approx(500 * 1152 / 3, abs=SAMPLE_RATE // 10)
    headless.write_bytes(b"".join(frames))
    with pytest.raises(InputError, match=r"headless\.mp3 is longer than the \d+ s .*ffmpeg"):
        load(headless)


def mp3_frames(content: bytes) -> list[bytes]:
    """The frames of an MPEG-1 layer III file at 48 kHz: 144 bytes times the bit rate over the sampling rate."""
    kilobits = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
    frames, place = [], 0
    while place + 4 <= len(content) and content[place] == 0xFF:
        length = 3 * kilobits[content[place + 2] >> 4] + (content[place + 2] >> 1 & 1)
        frames.append(content[place : place + length])
        place += length
    return frames
