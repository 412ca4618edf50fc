"""What libsndfile cannot open, against the samples that were encoded and against libsndfile where both can."""

from typing import Any

import av
import numpy as np
import pytest
import soundfile
import soxr
from containers import cut_off, encode

from npda.audio import SAMPLE_RATE, duration, length, load, stream
from npda.audio.ffmpeg import FfmpegSound
from npda.io.errors import InputError

# FFmpeg encodes these, and libsndfile opens none of them.
KINDS = [
    ("talk.m4a", 44_100, "aac"),
    ("lossless.m4a", 22_050, "alac"),
    ("talk.mp4", 48_000, "libopus"),
    ("talk.mov", 16_000, "aac"),
    ("talk.webm", 48_000, "libopus"),
    ("talk.mkv", 44_100, "aac"),
    ("talk.aac", 32_000, "aac"),
]


def sweep(rate: int, seconds: float) -> np.ndarray:
    """A tone that rises: no part of it resembles another, so that a shift would show."""
    time = np.arange(round(rate * seconds)) / rate
    return (0.4 * np.sin(2 * np.pi * (200 + 100 * time) * time)).astype(np.float32)


def decoded(path) -> np.ndarray:
    """The whole file at its own rate."""
    return np.concatenate([block for block, _ in FfmpegSound(path).blocks(0, None)])


def lag(heard: np.ndarray, expected: np.ndarray) -> int:
    """By how many samples `heard` comes later, by the peak of the correlation."""
    size = len(heard) + len(expected)
    product = np.fft.rfft(heard, size) * np.conj(np.fft.rfft(expected, size))
    peak = int(np.fft.irfft(product, size).argmax())
    return peak if peak < size // 2 else peak - size


@pytest.mark.parametrize(("name", "rate", "codec"), KINDS)
def test_containers_libsndfile_cannot_open(tmp_path, name, rate, codec):
    left = sweep(rate, 3.0)
    path = encode(tmp_path / name, np.stack([left, np.zeros_like(left)]), rate, codec)
    with pytest.raises(soundfile.SoundFileError):
        soundfile.info(path)
    waveform = load(path)
    assert waveform.dtype == np.float32
    # The other channel is silent, so the mean of the two is half as loud.
    expected = soxr.resample(left / 2, rate, SAMPLE_RATE)
    # A bare aac stream does not tell its encoder's delay of 1,024 samples; codecs fill their last frame.
    late = round(1024 * SAMPLE_RATE / rate) if name == "talk.aac" else 0
    assert abs(lag(waveform, expected) - late) <= 1
    assert 0 <= len(waveform) - len(expected) < (2 * 1024 / rate + 0.01) * SAMPLE_RATE
    inner = slice(2000, 40_000)
    np.testing.assert_allclose(waveform[late:][inner], expected[inner], atol=0.02)
    assert duration(path) == pytest.approx(3.0, abs=0.1)
    samples, own_rate = length(path)
    assert (samples, own_rate) == (len(decoded(path)), rate)


@pytest.mark.parametrize(("name", "rate", "codec"), KINDS)
def test_a_piece_is_exactly_what_the_whole_has_there(tmp_path, name, rate, codec):
    """Found by seeking (m4a, mp4, mov) or by decoding what comes before."""
    path = encode(tmp_path / name, sweep(rate, 8.0), rate, codec)
    whole = decoded(path)
    total, _ = length(path)
    assert total == len(whole)
    for offset, count in [(0, rate), (5, 3000), (rate + 1, 2 * rate), (6 * rate + 123, 7777), (total - 4321, 4321)]:
        piece = np.concatenate([block for block, _ in FfmpegSound(path).blocks(offset, count)])
        np.testing.assert_array_equal(piece, whole[offset : offset + count])
        expected = piece if rate == SAMPLE_RATE else soxr.resample(piece, rate, SAMPLE_RATE)
        np.testing.assert_allclose(load(f"{path}:{offset}:{count}"), expected, atol=1e-6)
        assert duration(f"{path}:{offset}:{count}") == count / rate
    for offset in (total - 100, total + 5 * rate):
        with pytest.raises(InputError, match=rf"ends at sample {offset + 200}, but .*{name} has only {total} samples"):
            load(f"{path}:{offset}:200")


def test_a_piece_near_the_end_is_found_without_decoding_the_rest(tmp_path):
    path = encode(tmp_path / "talk.m4a", sweep(16_000, 60.0), 16_000)
    sound = FfmpegSound(path)
    frames = list(sound._frames(55 * 16_000))
    assert frames[0][0] <= 55 * 16_000
    assert sum(len(samples) for _, samples in frames) < 7 * 16_000


@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_long_file_streams_in_blocks(tmp_path, rate):
    path = encode(tmp_path / "talk.m4a", sweep(rate, 25.0), rate)
    blocks = list(stream(path))
    assert len(blocks) == 3
    assert max(map(len, blocks)) < 11 * SAMPLE_RATE
    whole = decoded(path)
    expected = whole if rate == SAMPLE_RATE else soxr.resample(whole, rate, SAMPLE_RATE)
    np.testing.assert_allclose(np.concatenate(blocks), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.wav", {"subtype": "PCM_16"}, 0),
        ("b.wav", {"subtype": "PCM_U8"}, 0),
        ("c.wav", {"subtype": "PCM_24"}, 0),
        ("d.wav", {"subtype": "DOUBLE"}, 0),
        ("a.flac", {"subtype": "PCM_16"}, 0),
        ("b.flac", {"subtype": "PCM_24"}, 0),
        ("a.ogg", {"format": "OGG", "subtype": "VORBIS"}, 1e-4),
        ("a.opus", {"format": "OGG", "subtype": "OPUS"}, 1e-4),
        ("a.mp3", {"format": "MP3"}, 1e-4),
    ],
)
def test_the_same_samples_as_libsndfile(tmp_path, name, options, tolerance):
    path = tmp_path / name
    soundfile.write(path, np.stack([sweep(48_000, 2.0), 0.1 * sweep(48_000, 2.0)[::-1]], axis=1), 48_000, **options)
    expected = soundfile.read(path, dtype="float32", always_2d=True)[0].mean(axis=1)
    heard = decoded(path)
    if name == "a.mp3":  # one of the two may keep the encoder's padding at an end
        shift = lag(heard, expected)
        assert abs(shift) < 1200
        heard = heard[max(0, shift) :]
        expected = expected[max(0, -shift) :]
        both = min(len(heard), len(expected)) - 1200
        heard, expected = heard[:both], expected[:both]
    np.testing.assert_allclose(heard, expected, atol=tolerance)


@pytest.mark.parametrize("name", ["video.mp4", "video.mkv", "video.mov"])
def test_a_video_gives_its_first_audio_stream(tmp_path, name):
    spoken = sweep(16_000, 3.0)
    path = encode(tmp_path / name, spoken, 16_000, "aac", pictures=True)
    assert lag(load(path), spoken) == 0
    assert duration(path) == pytest.approx(3.0, abs=0.2)


def test_a_video_without_sound_has_its_sentence(tmp_path):
    with av.open(str(tmp_path / "mute.mp4"), "w") as container:
        video: Any = container.add_stream("mpeg4", rate=5)
        video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        for _ in range(5):
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")))
        container.mux(video.encode(None))
    for read in (load, duration, length):
        with pytest.raises(InputError, match=r"mute\.mp4 has no sound: .* no audio stream"):
            read(tmp_path / "mute.mp4")


@pytest.mark.parametrize("name", ["talk.m4a", "talk.mkv", "talk.webm", "talk.aac"])
def test_a_file_that_was_cut_off_is_read_up_to_there_and_reported(tmp_path, name):
    path = cut_off(encode(tmp_path / name, sweep(48_000, 30.0), 48_000, header_first=name == "talk.m4a"))
    heard = []
    with pytest.raises(InputError, match=rf"cut-{name} cannot be read any further than 1\d\.\d s .*download it again"):
        heard.extend(stream(path))
    assert sum(map(len, heard)) == pytest.approx(15 * SAMPLE_RATE, rel=0.2)


def test_garbage_has_its_sentence(tmp_path):
    """One sentence that names the file and a remedy, from every way of reading."""
    moov_last = cut_off(encode(tmp_path / "talk.m4a", sweep(16_000, 3.0), 16_000))
    contents = {
        "text.m4a": b"this is not audio\n" * 100,
        "noise.mp4": np.random.default_rng(0).bytes(50_000),
        "zeros.webm": bytes(5000),
        "empty.m4a": b"",
        "header.m4a": b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(64),
        moov_last.name: moov_last.read_bytes(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        for read in (load, duration, length):
            with pytest.raises(InputError) as caught:
                read(tmp_path / name)
            said = str(caught.value)
            assert said.startswith(f"{tmp_path / name} cannot be read as audio (")
            assert said.endswith("export it as wav or flac.")
            assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("list.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{}\n#EXT-X-ENDLIST\n"),
        ("list.ffconcat", "ffconcat version 1.0\nfile {}\n"),
    ],
)
def test_a_playlist_cannot_open_other_files(tmp_path, name, content):
    other = encode(tmp_path / "other.aac", sweep(16_000, 3.0), 16_000)
    (tmp_path / name).write_text(content.format(other if name == "list.m3u8" else other.name))
    with pytest.raises(InputError, match="cannot be read as audio"):
        load(tmp_path / name)


def test_names_that_look_like_addresses(tmp_path):
    """FFmpeg would take what stands before the colon for a protocol."""
    path = encode(tmp_path / "talk.m4a", sweep(16_000, 2.0), 16_000)
    odd = path.rename(tmp_path / "http:10:30.m4a")
    assert len(load(odd)) == pytest.approx(2 * SAMPLE_RATE, abs=2048)
    assert len(load(f"{odd}:16000:8000")) == 8000
