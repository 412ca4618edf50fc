"""Files appear whole or not at all; text is UTF-8 or refused with the line."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npda.io.errors import InputError
from npda.io.files import atomic_directory, atomic_write, audio_piece, cache_dir, read_lines, write_lines


def _break_off(writing, name: str) -> None:
    with writing as temporary:
        (temporary / name).write_text("half")
        raise KeyError


def test_atomic_write_replaces_on_success(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with atomic_write(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
        assert temporary.suffix == ".txt"
    with atomic_write(path) as temporary:
        temporary.write_text("two")
        assert path.read_text() == "one"
    assert path.read_text() == "two"
    assert os.listdir(path.parent) == ["a.txt"]


def test_atomic_write_leaves_the_old_file_on_error(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyError):
        _break_off(atomic_write(path), "")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_kill_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    program = (
        "import sys, time\n"
        "from npda.io.files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.read_text() == "old"


def test_atomic_directory_publishes_whole(tmp_path):
    path = tmp_path / "store"
    with pytest.raises(KeyError):
        _break_off(atomic_directory(path), "inside")
    assert os.listdir(tmp_path) == []
    with atomic_directory(path) as building:
        (building / "whole").write_text("x")
    assert os.listdir(path) == ["whole"]


def test_atomic_directory_yields_to_the_first_publisher(tmp_path):
    path = tmp_path / "store"
    with atomic_directory(path) as ours:
        (ours / "who").write_text("second")
        with atomic_directory(path) as theirs:
            (theirs / "who").write_text("first")
    assert (path / "who").read_text() == "first"
    assert os.listdir(tmp_path) == ["store"]


def test_cache_dir_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("NPDA_CACHE", str(tmp_path / "c"))
    assert cache_dir() == tmp_path / "c"
    monkeypatch.delenv("NPDA_CACHE")
    assert cache_dir().name == "npda"


def test_lines_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028still two\x0b\n\nlast".encode())
    assert read_lines(path) == ["one", "two\u2028still two\x0b", "", "last"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_round_trip(tmp_path, name):
    lines = ["grün", "", "\u2028", '"quoted"']
    write_lines(tmp_path / name, lines)
    assert read_lines(tmp_path / name) == lines
    first = (tmp_path / name).read_bytes()
    time.sleep(0.01)
    write_lines(tmp_path / name, lines)
    assert (tmp_path / name).read_bytes() == first


def test_undecodable_text_names_the_line(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("gut\nschön\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt, line 2: byte 0xf6 is not UTF-8"):
        read_lines(path)


def test_a_broken_or_missing_file_is_an_input_error(tmp_path):
    whole = gzip.compress(b"text\n" * 1000)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "plain.gz").write_bytes(b"text")
    for name in ("cut.gz", "plain.gz", "missing.txt"):
        with pytest.raises(InputError, match=name):
            read_lines(tmp_path / name)
    with pytest.raises(InputError, match="surrogate"):
        write_lines(tmp_path / "s.txt", ["\ud800"])
    assert not (tmp_path / "s.txt").exists()


def test_audio_pieces(tmp_path):
    assert audio_piece("talk.wav") == (Path("talk.wav"), 0, None)
    assert audio_piece("a/talk.wav:160:3200") == (Path("a/talk.wav"), 160, 3200)
    assert audio_piece("at 10:30.wav") == (Path("at 10:30.wav"), 0, None)
    existing = tmp_path / "at:10:30"
    existing.touch()
    assert audio_piece(existing) == (existing, 0, None)
    assert audio_piece(f"{existing}:1:2") == (existing, 1, 2)
