"""What happens to a process when it asks the disk for something for the nth time: nothing, an error, or its end."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EVENTS = {"os.rename", "os.mkdir", "os.link", "os.symlink", "os.truncate"}
_CLEARING = {"os.rmdir", "os.remove"}  # what a disk that refuses these keeps, the next run clears
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
Act = Callable[[str], None]


def kill(path: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def failing(code: int) -> Act:
    def act(path: str) -> None:
        raise OSError(code, os.strerror(code), path)

    return act


class Interference:
    """Python tells of every file that it opens or moves; what libraries of other languages write lies in between.

    root: where it counts; at: which time it acts, from 1 on; lasting: ever after, too
    """

    def __init__(self, root: Path, at: int | None = None, act: Act = kill, lasting: bool = False) -> None:
        self._root, self._at, self._act, self._lasting = str(root), at, act, lasting
        self._count = multiprocessing.RawValue(ctypes.c_long)  # shared with the process that forks

    @property
    def count(self) -> int:
        return self._count.value

    def begin(self) -> None:
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITES:
                return
        elif event in _EVENTS or (event in _CLEARING and self._act is kill):
            path = arguments[0]
        else:
            return
        if isinstance(path, int) or path is None:
            return
        name = os.path.abspath(os.fsdecode(path))
        if not name.startswith(self._root):
            return
        self._count.value += 1
        if self._at is not None and (self.count == self._at or (self._lasting and self.count > self._at)):
            self._act(name)


def no_file_beyond(size: int) -> Callable[[], None]:
    """No file may become larger: what the disk says to any library, whatever it is written in."""

    def begin() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return begin


_NEWUSER, _NEWNS = 0x10000000, 0x00020000
_RDONLY, _REMOUNT, _PRIVATE, _REC = 1, 32, 1 << 18, 1 << 14


def small_disk(folder: Path, size: int) -> None:
    """Mount a disk of so many bytes there, which this process alone sees; OSError where the system does not let us."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", _NEWUSER | _NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _call("mount", b"none", b"/", None, _REC | _PRIVATE, None)
    _call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode())


def read_only(folder: Path) -> None:
    _call("mount", b"none", os.fsencode(folder), None, _REMOUNT | _RDONLY, None)


def _call(name: str, *arguments: Any) -> None:
    if not sys.platform.startswith("linux"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
