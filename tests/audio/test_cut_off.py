"""Files that are not whole: what can be read of them is told, and headers that nobody means are refused."""

import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import said
import soundfile
import tiny

from npda import audio
from npda.io.errors import InputError
from npda.translator import Translator

KINDS = {
    "a.wav": {},
    "a.flac": {},
    "a.mp3": {"format": "MP3"},
    "a.ogg": {"format": "OGG", "subtype": "VORBIS"},
    "a.aiff": {},
    "a.w64": {},
    "a.rf64": {"format": "RF64"},
    "a.au": {},
    "a.caf": {},
}
SECONDS = 4


@pytest.fixture(params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    soundfile.write(path, said.speech(SECONDS * 16_000), 16_000, **KINDS[request.param])
    return path


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_truncated_file_says_so_and_gives_its_beginning(whole: Path, share: float):
    expected = audio.load(whole)
    content = whole.read_bytes()
    whole.write_bytes(content[: int(share * len(content))])
    with pytest.raises(audio.CutOff, match=r"cut off: |cannot be read any further") as cut:
        audio.load(whole)
    heard = cut.value.samples
    assert heard is not None
    assert len(heard) < len(expected)
    np.testing.assert_allclose(heard[:8_000], expected[: len(heard)][:8_000], atol=1e-4)


def riff(path: Path, size: int, rate: int = 16_000) -> Path:
    """A wav whose header says so much."""
    soundfile.write(path, said.speech(32_000), 16_000)
    content = bytearray(path.read_bytes())
    assert content[36:40] == b"data"
    content[4:8], content[40:44] = struct.pack("<I", min(size + 36, 0xFFFFFFFF)), struct.pack("<I", size)
    content[24:32] = struct.pack("<II", rate, 2 * rate)
    path.write_bytes(content)
    return path


def test_a_header_that_claims_ten_hours(tmp_path: Path):
    with pytest.raises(audio.CutOff, match=r"2\.0 s could be read of the 36000\.0 s that it promises"):
        audio.load(riff(tmp_path / "a.wav", 36_000 * 32_000))


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_header_written_into_a_pipe_claims_nothing(tmp_path: Path, size: int):
    assert len(audio.load(riff(tmp_path / "a.wav", size))) == 32_000


@pytest.mark.parametrize("rate", [1, 999, 2_000_000])
def test_rates_at_which_nobody_speaks(tmp_path: Path, rate: int):
    with pytest.raises(InputError, match=r"samples a second, which is not a rate for speech"):
        audio.load(riff(tmp_path / "a.wav", 64_000, rate))


def test_a_name_need_not_be_utf_8(tmp_path: Path):
    expected = audio.load(riff(tmp_path / "a.wav", 64_000))
    name = os.fsdecode(os.fsencode(tmp_path) + b"/sch\xf6n.wav")
    try:
        shutil.copyfile(tmp_path / "a.wav", name)
    except OSError:
        pytest.skip("this disk takes UTF-8 only")
    np.testing.assert_array_equal(audio.load(name), expected)


def test_ffmpeg_looks_before_the_beginning_of_a_file_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    (tmp_path / "a.mp3").touch()
    with pytest.raises(InputError, match="cannot be read as audio"):
        audio.load(tmp_path / "a.mp3")
    assert capfd.readouterr().err == ""


def test_a_batch_goes_on_with_what_could_be_read(tmp_path: Path):
    paths = [riff(tmp_path / "cut.wav", 96_000), riff(tmp_path / "whole.wav", 64_000), tmp_path / "none.wav"]
    faults: list[InputError] = []
    translator = Translator(tiny.backbone())
    cut, whole, none = translator.translate_all(paths, on_error=faults.append)
    assert cut is not None
    assert whole is not None
    assert (cut.text, cut.duration) == (whole.text, whole.duration)
    assert none is None
    assert [type(fault) for fault in faults] == [audio.CutOff, InputError]
    with pytest.raises(audio.CutOff):
        translator.translate(paths[0])
