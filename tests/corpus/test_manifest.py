"""Manifests: what is written is read back; what is wrong is named by file, line and column."""

import gzip
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.corpus.manifest import Utterance, read_manifest, within, write_manifest
from npda.io.errors import InputError

HEADER = "id\taudio\tn_frames\ttgt_text"


def manifest(tmp_path, *lines: str, name: str = "m.tsv"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_reads_a_fairseq_manifest_by_hand(tmp_path):
    path = manifest(
        tmp_path,
        "tgt_text\tid\tunknown\taudio\tn_frames\tspeaker\tsrc_text",
        'Er sagte: "Ja\tt1\tx\tclips/a.flac\t120\tspk1\the said "yes',
        "Grün\tt2\ty\t/data/talk.wav:16000:32000\t199\t\t",
    )
    assert read_manifest(path) == [
        Utterance("t1", str(tmp_path / "clips/a.flac"), 120, 'Er sagte: "Ja', 'he said "yes', "spk1"),
        Utterance("t2", "/data/talk.wav:16000:32000", 199, "Grün"),
    ]


def test_reads_gzip_and_crlf(tmp_path):
    path = tmp_path / "m.tsv.gz"
    path.write_bytes(gzip.compress(f"{HEADER}\r\na\ta.wav\t7\tja\r\n".encode()))
    assert read_manifest(path) == [Utterance("a", str(tmp_path / "a.wav"), 7, "ja")]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([HEADER, "a\ta.wav\t5\tja", "b\tb.wav\t5"], "m.tsv, line 3: 3 fields instead of 4"),
        ([HEADER, "a\ta.wav\t5\tja\t"], "line 2: 5 fields instead of 4"),
        ([HEADER, "a\ta.wav\t5\tja", "", "b\tb.wav\t5\tja"], "line 3: 1 fields instead of 4"),
        (
            ["id\taudio\tn_frames\ttarget_text", "a\ta\t1\tx"],
            "column tgt_text is missing; rename 'target_text'",
        ),
        (["id\tpath\tn_frames\ttgt_text", "a\ta\t1\tx"], "column audio is missing; it has id, path"),
        ([HEADER + "\tid", "a\ta\t1\tx\tb"], "line 1: the column id occurs twice"),
        ([HEADER, "a\ta.wav\t5.5\tja"], "line 2, column n_frames: '5.5' is not a positive whole number"),
        ([HEADER, "a\ta.wav\t0\tja"], "line 2, column n_frames: '0'"),
        ([HEADER, "a\ta.wav\t-3\tja"], "line 2, column n_frames: '-3'"),
        ([HEADER, "a\ta.wav\t²\tja"], "line 2, column n_frames"),
        (
            [HEADER, "a\ta.wav\t5\tja", "b\tb\t5\tx", "a\ta\t5\tx"],
            "line 4, column id: 'a' already stands in line 2",
        ),
        ([HEADER, "a\ta.wav\t5\t "], "line 2, column tgt_text: empty"),
        ([HEADER, "a\t\t5\tja"], "line 2, column audio: empty"),
        ([HEADER, "\ta.wav\t5\tja"], "line 2, column id: empty"),
        ([HEADER], "has no utterances"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, lines, complaint):
    with pytest.raises(InputError) as caught:
        read_manifest(manifest(tmp_path, *lines))
    assert complaint in str(caught.value)
    assert "m.tsv" in str(caught.value)


def test_undecodable_text_names_the_line(tmp_path):
    path = tmp_path / "m.tsv"
    path.write_bytes(f"{HEADER}\na\ta.wav\t5\tja\nb\tb.wav\t5\tschön\n".encode("latin-1"))
    with pytest.raises(InputError, match="line 3: byte 0xf6 is not UTF-8"):
        read_manifest(path)


def test_missing_audio_is_looked_for_on_request_only(tmp_path):
    (tmp_path / "a.wav").touch()
    path = manifest(tmp_path, HEADER, "a\ta.wav:0:16000\t98\tja", "b\tb.wav:0:16000\t98\tja")
    assert len(read_manifest(path)) == 2
    with pytest.raises(InputError, match=r"line 3, column audio: there is no file .*b\.wav\."):
        read_manifest(path, check_audio=True)


def test_audio_inside_the_folder_is_written_relative(tmp_path):
    inside, outside = tmp_path / "set" / "clips" / "a.flac", tmp_path / "settle" / "b.flac"
    path = tmp_path / "set" / "m.tsv"
    write_manifest(path, [Utterance("a", str(inside), 5, "ja"), Utterance("b", str(outside), 5, "nein")])
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    assert [row[1] for row in rows] == ["audio", "clips/a.flac", str(outside)]
    (tmp_path / "set").rename(tmp_path / "moved")
    assert read_manifest(tmp_path / "moved" / "m.tsv")[0].audio == str(tmp_path / "moved/clips/a.flac")


@pytest.mark.parametrize(
    ("utterance", "complaint"),
    [
        (Utterance("a", "/a.wav", 5, "ja\tnein"), "utterance 'a', column tgt_text: a tab or a line break"),
        (Utterance("a", "/a.wav", 5, "ja", "yes\nno"), "column src_text: a tab or a line break"),
        (Utterance("a", "/a.wav", 5, "ja", speaker="x\r"), "column speaker"),
        (Utterance("a", "/a.wav", 0, "ja"), "column n_frames: '0'"),
        (Utterance("a", "/a.wav", 5, ""), "column tgt_text: empty"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path, utterance, complaint):
    with pytest.raises(InputError, match=complaint):
        write_manifest(tmp_path / "m.tsv", [utterance])
    with pytest.raises(InputError, match="used twice"):
        write_manifest(tmp_path / "m.tsv", [Utterance("a", "/a", 1, "x")] * 2)
    assert list(tmp_path.iterdir()) == []


line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=30)
filled = line_text.filter(str.strip)
names = st.text(string.ascii_letters + " .:'é", min_size=1, max_size=8).filter(lambda name: name.strip(" ."))
languages = st.sampled_from(["", "de", "en", "mdw", "pt-BR"])
utterances = st.builds(
    Utterance,
    id=filled,
    audio=names.map("/somewhere/{}".format),
    n_frames=st.integers(1, 10**9),
    tgt_text=filled,
    src_text=line_text,
    speaker=line_text,
    src_lang=languages,
    tgt_lang=languages,
)


@given(st.lists(utterances, min_size=1, max_size=5, unique_by=lambda utterance: utterance.id))
def test_round_trip(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("manifest") / "m.tsv"
    write_manifest(path, written)
    assert read_manifest(path) == written


def test_within_drops_and_counts():
    short, long = Utterance("a", "/a", 3000, "x"), Utterance("b", "/b", 3001, "x")
    assert within([short, long, short], 3000) == ([short, short], 1)
