"""Europarl-ST: the segments that are read are the sentences that were spoken, and every fault has its sentence."""

import shutil
from collections import Counter

import numpy as np
import pytest
import soundfile
import tiny_corpora
from containers import encode
from tiny_corpora import RATE, edit

from npda import audio
from npda.corpus import europarl_st
from npda.io.errors import InputError

SPEECHES = ("en.20081117.21.1-146", "en.20090112.3.1-7")


@pytest.fixture(scope="module")
def speeches():
    return tiny_corpora.talks("parliament", "test", SPEECHES)


@pytest.fixture
def root(tmp_path, speeches):
    tiny_corpora.write_europarl_st(tmp_path, "test", speeches)
    return tmp_path


@pytest.fixture
def folder(root):
    return root / "en" / "de" / "test"


def read(root):
    return europarl_st.read(root, "en", "de", "test")


def test_segments_are_the_sentences(root, speeches):
    utterances = read(root)
    assert [one.id for one in utterances] == [f"{speech}_{n}.de" for speech in SPEECHES for n in range(3)]
    tiny_corpora.check_sentences(utterances, speeches)
    assert [one.speaker for one in utterances] == ["Member 0"] * 3 + ["Member 1"] * 3


def test_any_direction(tmp_path, root):
    """French speeches into English lie in fr/en, beside fr/audios."""
    shutil.move(root / "en", root / "fr")
    shutil.move(root / "fr" / "de", root / "fr" / "en")
    folder = root / "fr" / "en" / "test"
    (folder / "segments.en").rename(folder / "segments.fr")
    (folder / "segments.de").rename(folder / "segments.en")
    first = europarl_st.read(root, "fr", "en", "test")[0]
    assert (first.src_lang, first.tgt_lang, first.id) == ("fr", "en", f"{SPEECHES[0]}_0.en")


@pytest.mark.parametrize("lines", [None, ["just one"]])
def test_speakers_are_not_guessed(root, folder, lines):
    (folder / "speakers.lst").unlink()
    if lines:
        tiny_corpora.write_text(folder / "speakers.lst", lines)
    assert {one.speaker for one in read(root)} == {""}


def test_wav_before_flac_before_m4a(root, speeches):
    audios = root / "en" / "audios"
    for speech in SPEECHES:
        (audios / f"{speech}.m4a").write_bytes(b"no audio")
    assert all(".flac:" in one.audio for one in read(root))
    soundfile.write(audios / f"{SPEECHES[0]}.wav", speeches[0].whole, RATE)
    assert [one.audio.rpartition(".")[2].split(":")[0] for one in read(root)] == ["wav"] * 3 + ["flac"] * 3


def test_m4a_as_it_comes(root, speeches):
    """Every segment is the sentence that was spoken, as AAC lets it through."""
    audios = root / "en" / "audios"
    for speech in speeches:
        (audios / f"{speech.name}.flac").unlink()
        encode(audios / f"{speech.name}.m4a", speech.whole / np.float32(32768), RATE)
    utterances = read(root)
    assert [one.audio.rsplit(":", 2)[0] for one in utterances] == [
        str(audios / f"{speech}.m4a") for speech in SPEECHES for _ in range(3)
    ]
    spoken = [sentence for speech in speeches for sentence in speech.spoken]
    for one, sentence in zip(utterances, spoken, strict=True):
        heard, expected = audio.load(one.audio), sentence / np.float32(32768)
        assert len(heard) == len(expected)
        assert one.n_frames == len(audio.fbank(heard))
        assert np.corrcoef(heard, expected)[0, 1] > 0.95


def test_a_broken_m4a_is_named_with_its_line(root):
    audios = root / "en" / "audios"
    for file in list(audios.iterdir()):
        file.with_name(file.name.replace(".flac", ".m4a")).write_bytes(b"\0\0\0\x20ftypM4A \0\0\0\0" + bytes(64))
        file.unlink()
    with pytest.raises(InputError) as caught:
        read(root)
    assert f"segments.lst, line 1: {audios / SPEECHES[0]}.m4a cannot be read as audio" in str(caught.value)


def test_a_rounded_end_is_clipped(root, folder, speeches):
    """Segments end at hundredths of a second; the last one may end after its recording."""
    end = len(speeches[1].whole) / RATE
    rows = (folder / "segments.lst").read_text().splitlines()
    tiny_corpora.write_text(folder / "segments.lst", [*rows[:-1], f"{SPEECHES[1]} {end - 2:.2f} {end + 0.4:.2f}"])
    remarks = Counter()
    last = europarl_st.read(root, "en", "de", "test", remarks)[-1]
    assert remarks == {"clipped to the end of the recording": 1}
    np.testing.assert_array_equal(
        audio.load(last.audio), speeches[1].whole[round((end - 2) * 100) * RATE // 100 :] / np.float32(32768)
    )


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("en", r"no folder .*/en\. Europarl-ST is expected as ROOT/en/audios/\*\.wav"),
        ("en/audios", r"no folder .*/en/audios\. "),
        ("en/de", r"no folder .*/en/de\. "),
        ("en/de/test", r"no folder .*/en/de/test\. .*give the folder that holds en as ROOT"),
        ("en/de/test/segments.lst", r"no file .*segments\.lst\. "),
        ("en/de/test/segments.en", r"no file .*segments\.en\. "),
        (f"en/audios/{SPEECHES[1]}.flac", r"segments\.lst, line 4: there is no en\.20090112\.3\.1-7\.wav, \.flac or"),
    ],
)
def test_what_is_missing_is_named(root, missing, says):
    path = root / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=says):
        read(root)


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("segments.de", "\n", " ", r"segments\.en has 6 lines but .*segments\.de has 5"),
        ("segments.lst", "\n", f"\n{SPEECHES[0]} 0 1\n", r"segments\.lst has 7 segments but .*segments\.de has 6"),
        ("segments.lst", "\n", " 7\n", "line 1: 4 fields instead of a speech, its start and its end"),
        ("segments.lst", "146 ", "146 x", "line 1: the start is 'x0.*', not a number of seconds"),
        ("segments.lst", "146 ", "146 99", "line 1: the segment ends at .* before it starts at 99"),
        ("segments.lst", "\n", "9999999\n", None),
        ("segments.lst", "146 0.25006 ", "146 0.25006 9", r"line 1: the segment ends at 9\d.* lasts only"),
        ("segments.lst", "en.2008", "../en.2008", r"line 1: '../en\.2008.*' is not the name of a file"),
    ],
)
def test_wrong_files_have_their_sentence(root, folder, name, old, new, says):
    edit(folder / name, old, new)
    if says is None:  # more digits are no fault
        assert len(read(root)) == 6
        return
    with pytest.raises(InputError, match=says):
        read(root)


@pytest.mark.parametrize(
    "names", [("en", "../de", "test"), ("EN", "de", "test"), ("en", "de", "tst"), ("en", "en", "test")]
)
def test_unknown_names(root, names):
    with pytest.raises(InputError, match=r"code of a language|no split|not from en into en"):
        europarl_st.read(root, *names)
