"""Writers against outputs written by hand, and subtitle times read back."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.io.errors import InputError
from npda.writers import FORMATS, Result, Segment, write, write_all

TALK = Result(
    "audio/talk.wav",
    (
        Segment(0.0, 59.9996, "Guten Morgen.", -0.25, (("Guten Morgen.", -0.25), ("Morgen!", -1.5))),
        Segment(60.0, 3661.0005, "A & B --> <C>\n\nzweite\tZeile"),
    ),
    "de",
)
SILENCE = Result("b.flac", ())


def written(results: list[Result], format: str) -> str:
    stream = io.StringIO()
    write(results, format, stream)
    return stream.getvalue()


def test_srt():
    assert written([TALK], "srt") == (
        "1\n00:00:00,000 --> 00:01:00,000\nGuten Morgen.\n\n"
        "2\n00:01:00,000 --> 01:01:01,000\nA & B -> <C> zweite Zeile\n\n"
    )


def test_srt_numbers_every_recording_from_1_and_leaves_empty_cues_out():
    spoken = Result("c.wav", (Segment(0, 1, " "), Segment(1, 2, "ja")))
    cue = "1\n00:00:01,000 --> 00:00:02,000\nja\n\n"
    assert written([spoken, SILENCE, spoken], "srt") == cue + cue


def test_vtt():
    assert written([TALK, SILENCE], "vtt") == (
        "WEBVTT\n\n"
        "NOTE talk.wav\n\n"
        "00:00:00.000 --> 00:01:00.000\nGuten Morgen.\n\n"
        "00:01:00.000 --> 01:01:01.000\nA &amp; B --&gt; &lt;C&gt; zweite Zeile\n\n"
        "NOTE b.flac\n\n"
    )


def test_tsv():
    assert written([TALK, SILENCE], "tsv") == (
        "id\tstart\tend\ttext\n"
        "audio/talk.wav\t0\t60000\tGuten Morgen.\n"
        "audio/talk.wav\t60000\t3661000\tA & B --> <C>  zweite Zeile\n"
    )


def test_txt_has_a_line_for_every_segment_and_for_silence():
    assert written([TALK, SILENCE], "txt") == "Guten Morgen.\nA & B --> <C>  zweite Zeile\n\n"
    assert written([Result("a", (Segment(0, 1, ""),)), TALK], "txt").startswith("\nGuten")


def test_txt_keeps_the_narrow_spaces_of_french():
    assert written([Result("a", (Segment(0, 1, "«\u00a0Oui\u202f!\u00a0»\u2028Non"),))], "txt") == (
        "«\u00a0Oui\u202f!\u00a0» Non\n"
    )


def test_json_is_an_object_a_line_with_stable_keys():
    first, second = written([TALK, SILENCE], "json").splitlines()
    assert first == (
        '{"id": "audio/talk.wav", "language": "de", '
        '"text": "Guten Morgen. A & B --> <C>\\n\\nzweite\\tZeile", "segments": ['
        '{"start": 0.0, "end": 60.0, "text": "Guten Morgen.", "score": -0.25, '
        '"nbest": [{"text": "Guten Morgen.", "score": -0.25}, {"text": "Morgen!", "score": -1.5}]}, '
        '{"start": 60.0, "end": 3661.0, "text": "A & B --> <C>\\n\\nzweite\\tZeile", '
        '"score": null, "nbest": []}]}'
    )
    assert json.loads(second) == {"id": "b.flac", "language": "", "text": "", "segments": []}


def test_json_writes_umlauts_as_they_are_and_infinity_as_null():
    line = written([Result("ü", (Segment(0, 1, "Öl", float("-inf"), (("Öl", float("nan")),)),))], "json")
    assert '"ü"' in line
    assert '"Öl", "score": null, "nbest": [{"text": "Öl", "score": null}]' in line


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_name_that_is_no_utf_8_can_be_written(format: str, tmp_path):
    name = b"caf\xe9.wav".decode("utf-8", "surrogateescape")
    written([Result(name, TALK.segments)], format).encode("utf-8")
    (path,) = write_all([Result(name, TALK.segments)], format, tmp_path)
    assert path.read_text(encoding="utf-8")


@given(
    st.lists(st.tuples(st.floats(0, 400_000), st.floats(0, 100), st.text(st.sampled_from("a1->\n\r\t &<\u2028")))),
    st.sampled_from(["srt", "vtt"]),
)
def test_subtitle_times_read_back(cues: list[tuple[float, float, str]], format: str):
    segments = tuple(Segment(start, start + length, text) for start, length, text in cues)
    spoken = [segment for segment in segments if segment.text.strip()]
    blocks = [b.split("\n") for b in written([Result("x", segments)], format).split("\n\n") if b]
    if format == "vtt":
        assert blocks[:2] == [["WEBVTT"], ["NOTE x"]]
        blocks = [["", *block] for block in blocks[2:]]
    else:
        assert [block[0] for block in blocks] == [str(n + 1) for n in range(len(spoken))]
    assert len(blocks) == len(spoken)
    for segment, (_, times, *text) in zip(spoken, blocks, strict=True):
        start, end = (seconds(time, "," if format == "srt" else ".") for time in times.split(" --> "))
        assert start == pytest.approx(segment.start, abs=0.000501)
        assert end == pytest.approx(segment.end, abs=0.001501)  # 1 ms more when nothing is left of its length
        assert start < end
        assert text
        assert not any("-->" in line or not line for line in text)


def seconds(time: str, point: str) -> float:
    match = re.fullmatch(rf"(\d\d+):([0-5]\d):([0-5]\d){re.escape(point)}(\d\d\d)", time)
    assert match, time
    hours, minutes, whole, thousandths = map(int, match.groups())
    return hours * 3600 + minutes * 60 + whole + thousandths / 1000


@pytest.mark.parametrize(("start", "end"), [(-1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_impossible_times_are_refused(start: float, end: float):
    with pytest.raises(ValueError, match="cannot last"):
        Segment(start, end, "x")


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_of_its_own_holds_what_the_stream_would(format: str, tmp_path):
    talk, silence = write_all([TALK, SILENCE], format, tmp_path / "new" / "folder")
    assert (talk.name, silence.name) == (f"talk.{format}", f"b.{format}")
    assert talk.read_bytes().decode() == written([TALK], format)
    assert silence.read_bytes().decode() == written([SILENCE], format)
    assert sorted((tmp_path / "new" / "folder").iterdir()) == [silence, talk]


def test_names_are_unique_and_stay_inside_the_folder(tmp_path):
    ids = [
        "a/talk.wav",
        "b/talk.flac",
        "talk-2.wav",
        "TALK.wav",
        "talk.mp3",
        "long.wav:100:200",
        "../../etc/evil.wav",
        "..",
        "ut:1|2",
    ]
    paths = write_all([Result(id, ()) for id in ids], "txt", tmp_path)
    assert [path.name for path in paths] == [
        "talk.txt",
        "talk-2.txt",
        "talk-2-2.txt",
        "TALK-3.txt",
        "talk-4.txt",
        "long-100-200.txt",
        "evil.txt",
        "recording.txt",
        "ut_1_2.txt",
    ]
    assert all(path.parent == tmp_path for path in paths)


def test_an_earlier_file_is_replaced_whole_or_not_at_all(tmp_path):
    def results(fail: bool):
        yield TALK
        if fail:
            raise KeyboardInterrupt

    write_all(results(False), "txt", tmp_path)
    (tmp_path / "b.txt").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_all(results(True), "txt", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"talk.txt", "b.txt"}
    assert (tmp_path / "b.txt").read_text() == "old"
    write_all([SILENCE], "txt", tmp_path)
    assert (tmp_path / "b.txt").read_text() == "\n"


def test_results_are_written_as_they_come():
    stream = io.StringIO()

    def results():
        yield TALK
        assert stream.getvalue().startswith("Guten Morgen.")
        yield SILENCE

    write(results(), "txt", stream)


@pytest.mark.parametrize("format", ["txt", "srt", "vtt", "tsv"])
def test_segments_are_written_as_they_come(format: str):
    """A talk of an hour shows its beginning within a minute, and gives the same in the end."""
    stream = io.StringIO()

    def segments():
        for number, segment in enumerate(TALK.segments):
            assert ("Guten Morgen." in stream.getvalue()) == (number > 0)
            yield segment

    write([Result(TALK.id, segments(), TALK.language)], format, stream)
    assert stream.getvalue() == written([TALK], format)


def test_a_talk_that_fails_in_the_middle_leaves_no_file(tmp_path):
    def segments():
        yield Segment(0, 1, "ja")
        raise InputError("talk.wav breaks off")

    with pytest.raises(InputError, match="breaks off"):
        write_all([Result("talk.wav", segments())], "srt", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_faults_are_named(tmp_path):
    with pytest.raises(InputError, match="no format 'doc'; choose from txt, json, srt, vtt, tsv"):
        write([], "doc", io.StringIO())
    with pytest.raises(InputError, match="no format"):
        write_all([], "doc", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file cannot be made a directory: "):
        write_all([TALK], "txt", tmp_path / "file")


def test_writing_needs_no_torch():
    code = "import sys, npda.writers; assert not {'torch', 'numpy', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_json_tells_what_it_took_only_where_it_took_something():
    plain, hard = Segment(0, 1, "ja", -1.0), Segment(1, 2, "nein", -2.0, retried="model alone")
    (line,) = written([Result("a.wav", (plain, hard))], "json").splitlines()
    first, second = json.loads(line)["segments"]
    assert "retried" not in first
    assert second["retried"] == "model alone"
