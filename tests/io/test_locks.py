"""Locks between processes: on files and folders, beyond forks and kills."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npda.io.errors import InputError
from npda.io.locks import Lock, locked

HOLDER = """
import os, sys, time
from pathlib import Path
from npda.io.locks import Lock
lock = Lock(Path(sys.argv[1]))
assert lock.acquire()
forked = os.fork() if sys.argv[2] == "forks" else -1
if forked == 0:
    sys.stdin.read()  # ends when the test closes its end of the pipe
    os._exit(0)
print("held", flush=True)
time.sleep(600)
"""


def holder(path: Path, how: str = "alone") -> subprocess.Popen:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture(params=["file", "folder"])
def path(request, tmp_path: Path) -> Path:
    if request.param == "file":
        return tmp_path / "locks" / "a"
    (tmp_path / "b").mkdir()
    return tmp_path / "b"


def test_one_at_a_time_and_released_by_kill(path: Path):
    process = holder(path)
    try:
        lock = Lock(path)
        assert not lock.acquire()
        with pytest.raises(InputError, match="Another process is working on"), locked(path):
            pass
        with pytest.raises(InputError, match="Somebody else"), locked(path, "Somebody else trains here."):
            pass
    finally:
        process.kill()
        process.communicate()
    assert lock.acquire(wait=True)
    assert not Lock(path).acquire()
    lock.release()
    lock.release()  # a second time does no harm
    with locked(path):
        assert not Lock(path).acquire()
    assert not list(path.glob("*"))  # nothing is left in a folder


def test_a_fork_keeps_the_lock_of_a_killed_process(path: Path):
    """As long as one of them may still write, nobody else begins."""
    process = holder(path, "forks")
    process.kill()
    process.wait()
    assert not Lock(path).acquire()
    process.communicate()  # lets the fork end
    lock = Lock(path)
    assert lock.acquire(wait=True)
    lock.release()


def test_release_counts_for_forks_too(path: Path):
    lock = Lock(path)
    assert lock.acquire()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the test closes the other end
        os._exit(0)
    os.close(reading)
    lock.release()
    other = Lock(path)
    try:
        assert other.acquire()
        other.release()
    finally:
        os.close(writing)
        os.waitpid(child, 0)
