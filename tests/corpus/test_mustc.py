"""MuST-C: the pieces that are read are the sentences that were spoken, and every fault has its sentence."""

import shutil
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import soundfile
import tiny_corpora
from tiny_corpora import RATE, edit

from npda import audio
from npda.corpus import mustc
from npda.corpus.manifest import read_manifest, write_manifest
from npda.io.errors import InputError


@pytest.fixture(scope="module")
def talks():
    return tiny_corpora.talks("general", "train", ("ted_1", "ted_22"))


@pytest.fixture
def root(tmp_path, talks):
    tiny_corpora.write_mustc(tmp_path, "train", talks)
    return tmp_path


@pytest.fixture
def texts(root):
    return root / "en-de" / "data" / "train" / "txt"


def test_pieces_are_the_sentences(root, talks):
    utterances = mustc.read(root, "de", "train")
    assert [one.id for one in utterances] == [f"{talk}_{n}.de" for talk in ("ted_1", "ted_22") for n in range(3)]
    tiny_corpora.check_sentences(utterances, talks)
    assert [one.speaker for one in utterances] == ["spk.0"] * 3 + ["spk.1"] * 3


def test_survives_a_manifest(root, tmp_path):
    utterances = mustc.read(root, "de", "train")
    write_manifest(tmp_path / "out" / "train.tsv", utterances)
    assert read_manifest(tmp_path / "out" / "train.tsv", check_audio=True) == utterances


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100])
def test_frames_of_recordings_at_another_rate(root, texts, rate):
    """n_frames is computed from the header; it must be what decoding and resampling give, at every length."""
    soundfile.write(texts.parent / "wav" / "ted_1.wav", np.zeros(rate, dtype=np.int16), rate)
    lengths = range(rate // 10, rate // 10 + rate // 50)
    entries = [f"- {{duration: {length / rate:.7f}, offset: 0.1, wav: ted_1.wav}}" for length in lengths]
    tiny_corpora.write_text(texts / "train.yaml", entries)
    for end in ("en", "de"):
        tiny_corpora.write_text(texts / f"train.{end}", ["word"] * len(lengths))
    for one, length in zip(mustc.read(root, "de", "train"), lengths, strict=True):
        assert one.audio.endswith(f":{length}")
        assert one.n_frames == audio.frame_count(len(audio.load(one.audio)))


def test_block_style_and_unknown_keys(root, texts, talks):
    flow = mustc.read(root, "de", "train")
    lines = []
    for talk in talks:
        for start, duration in talk.spans:
            lines += [f"- wav: '{talk.name}.wav'", "  note: x", f"  duration: {duration:.6f}", f"  offset: {start:.6f}"]
    tiny_corpora.write_text(texts / "train.yaml", lines)
    block = mustc.read(root, "de", "train")
    assert [(one.id, one.audio, one.speaker) for one in block] == [(one.id, one.audio, "") for one in flow]


def test_skipped_and_clipped(root, texts, talks):
    """An empty line and a click are skipped, what ends a little late is clipped; the other ids do not change."""
    tiny_corpora.write_text(texts / "train.de", ["", "a\tb", "c", "d", "e", "f"])
    entries = (texts / "train.yaml").read_text().splitlines()
    short = f"- {{duration: 0.04, offset: 0.1, speaker_id: s, wav: {talks[0].name}.wav}}"
    end = len(talks[1].whole) / RATE
    late = f"- {{duration: 1.3, offset: {end - 1:.6f}, speaker_id: s, wav: {talks[1].name}.wav}}"
    tiny_corpora.write_text(texts / "train.yaml", [*entries[:2], short, *entries[3:5], late])
    remarks = Counter()
    utterances = mustc.read(root, "de", "train", remarks)
    assert [one.id for one in utterances] == ["ted_1_1.de", "ted_22_0.de", "ted_22_1.de", "ted_22_2.de"]
    assert utterances[0].tgt_text == "a b"
    assert utterances[-1].audio.endswith(f":{len(talks[1].whole) - RATE}:{RATE}")
    assert len(audio.load(utterances[-1].audio)) == RATE
    assert remarks == {
        "without text on a side": 1,
        "too short to hear": 1,
        "clipped to the end of the recording": 1,
    }


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (".", r"no folder .*corpus\. MuST-C is expected as ROOT/en-de/data/train"),
        ("en-de", r"no folder .*en-de\. .*unpack its archive of en-de in ROOT"),
        ("en-de/data/train", r"no folder .*data/train\. "),
        ("en-de/data/train/wav", r"no folder .*train/wav\. "),
        ("en-de/data/train/txt/train.yaml", r"no file .*train\.yaml\. .*train\.yaml, \.en and \.de"),
        ("en-de/data/train/txt/train.de", r"no file .*train\.de\. "),
        ("en-de/data/train/wav/ted_22.wav", r"train\.yaml, line 4: there is no recording .*ted_22\.wav"),
    ],
)
def test_what_is_missing_is_named(tmp_path, talks, missing, says):
    root = tmp_path / "corpus"
    tiny_corpora.write_mustc(root, "train", talks)
    path = root / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=says):
        mustc.read(root, "de", "train")


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("train.de", "\n", " ", r"train\.en has 6 lines but .*train\.de has 5"),
        ("train.yaml", "- {", "- {wav: ted_1.wav, offset: 0, duration: 1}\n- {", r"7 segments but .*train\.de has 6"),
        ("train.yaml", "offset: ", "start: ", "line 1: the entry has no offset"),
        ("train.yaml", "duration: ", "duration: -", r"line 1: duration is '-\d.*', not a number of seconds"),
        ("train.yaml", "duration: ", "duration: nan #", "broken YAML"),
        ("train.yaml", "offset: ", "offset: .nan, x: ", "line 1: offset is '.nan'"),
        ("train.yaml", "offset: ", "offset: 1e999, x: ", "line 1: offset is '1e999'"),
        ("train.yaml", "duration: ", "duration: 100, x: ", r"line 1: .* ends at 100\.25 s, but .* lasts only"),
        ("train.yaml", "ted_1.wav", "../../ted_1.wav", r"line 1: '../../ted_1\.wav' is not the name of a file"),
        ("train.yaml", "wav: ted_1.wav", "wav: ''", "line 1: '' is not the name of a file"),
        ("train.yaml", "- {", "- [", "line 1: .*(broken YAML|not a list)"),
        ("train.yaml", "rW: 9", "rW: [9]", "line 1: not a list of"),
        ("train.yaml", "- {", "- &a {}\n- *a\n- {", "line 1: the entry has no duration"),
        ("train.yaml", "rW: 9, uW: 0", "rW: &a 9, uW: *a", "line 1: not a list of"),
        ("train.yaml", "- {", "{", "line 1: not a list of"),
        ("train.yaml", "}", "", r"line \d: broken YAML"),
    ],
)  # fmt: skip
def test_wrong_files_have_their_sentence(root, texts, name, old, new, says):
    edit(texts / name, old, new)
    with pytest.raises(InputError, match=says):
        mustc.read(root, "de", "train")


def test_other_bytes(root, texts):
    (texts / "train.yaml").write_bytes(b"- {wav: \xff\xfe}\n")
    with pytest.raises(InputError, match=r"train\.yaml.*broken YAML"):
        mustc.read(root, "de", "train")
    (texts / "train.yaml").write_bytes(b"")
    with pytest.raises(InputError, match=r"train\.yaml has 0 segments"):
        mustc.read(root, "de", "train")


def test_no_recording(root, texts):
    (texts.parent / "wav" / "ted_1.wav").write_bytes(b"RIFF")
    with pytest.raises(InputError, match=r"line 1: .*ted_1\.wav cannot be read as audio .* Unpack the corpus again"):
        mustc.read(root, "de", "train")


@pytest.mark.parametrize(("language", "split"), [("../x", "train"), ("DE", "train"), ("de", "test"), ("de", "../dev")])
def test_unknown_names(root, language, split):
    with pytest.raises(InputError, match=r"code of a language|no split"):
        mustc.read(root, language, split)


def test_a_long_list_is_streamed(root, texts, talks):
    """As objects of the YAML library 5,000 entries take 33 MB, as events next to nothing."""
    count = 5_000
    entry = (texts / "train.yaml").read_text().splitlines()[0]
    tiny_corpora.write_text(texts / "train.yaml", [entry] * count)
    for end in ("en", "de"):
        tiny_corpora.write_text(texts / f"train.{end}", ["word"] * count)
    tracemalloc.start()
    utterances = mustc.read(root, "de", "train")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len({one.id for one in utterances}) == count
    assert peak < 1_500 * count
