"""Files appear whole or not at all; text is UTF-8 or refused with the line."""

import errno
import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npda.io.errors import InputError
from npda.io.files import (
    atomic_directory,
    atomic_write,
    audio_piece,
    cache_dir,
    check_file,
    check_writable,
    read_lines,
    write_lines,
)


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


def left_by_a_killed_process(path: Path, directory: bool = False) -> Path:
    """A process that is killed while it writes; what it leaves."""
    writer = "atomic_directory" if directory else "atomic_write"
    program = (
        "import os, sys\n"
        f"from npda.io.files import {writer}\n"
        f"with {writer}(sys.argv[1]) as temporary:\n"
        "    temporary.is_dir() or temporary.write_text('half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == -signal.SIGKILL
    (litter,) = (entry for entry in path.parent.iterdir() if entry.name.startswith("."))
    return litter


def test_the_next_run_clears_what_a_killed_one_left(tmp_path):
    """In a process of its own, as a next run is; what living processes write, and other hidden files, stay."""
    other = tmp_path / ".hidden.12-notes.txt"
    other.write_text("mine")
    folder = tmp_path / "results"
    for directory in (False, True):
        litter = left_by_a_killed_process(folder / "a.txt", directory)
        living = litter.with_name(litter.name.replace(litter.name.split(".")[-2].split("-")[0], str(os.getpid())))
        living.mkdir()
        program = "import sys; from npda.io.files import write_lines; write_lines(sys.argv[1], [])"
        subprocess.run([sys.executable, "-c", program, folder / "b.txt"], check=True)
        assert {entry.name for entry in folder.iterdir()} == {"b.txt", living.name}
        living.rmdir()
    assert other.exists()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("1000 requested and 17 written"),  # NumPy
        RuntimeError('Error: "I/O error while serializing: No space left on device (os error 28)"'),  # safetensors
        RuntimeError(
            "Error in virtual size_t faiss::FileIOWriter::operator()(…): write error: No space left on device"
        ),
    ],
)
def test_a_full_disk_is_one_sentence_and_leaves_everything_as_it_was(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(InputError, match=r"a\.txt cannot be written: the disk is full"):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_is_no_file_is_called_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for bad, words in {
        tmp_path: "is a folder: name a file in it",
        tmp_path / "fifo": "is a pipe or device",
        "-": "- is standard input, which cannot be read here",
        tmp_path / "none": "There is no file",
        tmp_path / ("n" * 300): "There is no file",
    }.items():
        with pytest.raises(InputError, match=words):
            check_file(bad)


def test_places_that_cannot_be_written_are_found_out_beforehand(tmp_path):
    check_writable(tmp_path / "new" / "deep" / "out.txt")
    check_writable(tmp_path / f"{'ü' * 120}.safetensors")  # 252 bytes
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    for bad, words in {
        tmp_path: "is a folder",
        tmp_path / "file" / "out.txt": "a file of this name is there",
        tmp_path / ("n" * 300): "name is too long",
        tmp_path / "fifo": "not an ordinary file",
    }.items():
        with pytest.raises(InputError, match=words):
            check_writable(bad)
    assert sorted(os.listdir(tmp_path)) == ["fifo", "file"]


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
