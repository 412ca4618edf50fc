"""Reading and writing files at the door: atomic writes, UTF-8 lines, the cache directory."""

import contextlib
import gzip
import hashlib
import os
import platform
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from npda.io.errors import InputError, disk_fault

_PIECE = re.compile(r"(?P<path>.+):(?P<offset>\d+):(?P<length>\d+)", re.DOTALL)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary sibling to write to; it replaces `path` on success and is removed on error.

    The sibling keeps the suffix of `path`, since some writers choose their format by it.
    """
    path = Path(path)
    temporary = _sibling(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_litter(path.parent)
        try:
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Yield a temporary sibling directory that is renamed to `path` on success and removed on error.

    When another process has published `path` in the meantime, theirs stays and ours is removed.
    """
    path = Path(path)
    temporary = _sibling(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_litter(path.parent)
        temporary.mkdir()
        try:
            yield temporary
            try:
                os.rename(temporary, path)
            except OSError:
                if not (path.is_dir() and any(path.iterdir())):
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """What the disk refuses while something is written is one sentence that names it, whichever library wrote."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        fault = disk_fault(error)
        if fault is None or isinstance(error, FileNotFoundError):
            raise
        raise InputError(f"{path} cannot be written: {fault}.") from error


def check_writable(path: str | Path) -> None:
    """Refuse, before hours of work, a file that could not be written afterwards; nothing is left there."""
    path = Path(path)
    with writing(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.lstat()  # or its name is too long
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name a file in it, for example {path / 'out.txt'}.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path} is not an ordinary file and would be overwritten: choose another name.")
    missing = [folder for folder in path.parents if not os.path.exists(folder)]
    with contextlib.suppress(_Enough), atomic_write(path) as temporary:
        temporary.touch()
        raise _Enough
    for folder in missing:
        with contextlib.suppress(OSError):
            folder.rmdir()


def check_file(path: str | Path, kind: str = "file") -> None:
    """Refuse what is no ordinary file, and say what it is instead. kind: what is wanted"""
    if os.path.isfile(path):
        return
    one = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    if str(path) == "-":
        raise InputError(f"- is standard input, which cannot be read here: name {one}.")
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: name {one} in it.")
    if os.path.exists(path):
        raise InputError(f"{path} is a pipe or device, which can be read only once: copy it to {one} first.")
    raise InputError(f"There is no {kind} {path}.")


class _Enough(Exception):
    """It can be written."""


def _sibling(path: Path) -> Path:
    # Some letters of a long name are enough: with all of them the sibling's could be too long.
    return path.with_name(f".{path.stem[:40]}.{os.getpid()}-{_host()}{secrets.token_hex(4)}{path.suffix}")


@cache
def _host() -> str:
    """By which a machine knows its own processes where several write to one disk."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:4]


_cleared: set[str] = set()  # folders that this process has looked through


def _clear_litter(folder: Path) -> None:
    """Remove what processes of this machine that were killed left behind when they wrote to a folder."""
    if (key := os.path.abspath(folder)) in _cleared:
        return
    _cleared.add(key)
    name = re.compile(rf"\..+\.(\d+)-{_host()}[0-9a-f]{{8}}(\.[^.]+)?")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if entry.name.startswith(".")]:
            match = name.fullmatch(entry.name)
            if match is None or _is_alive(int(match[1])):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def cache_dir() -> Path:
    """Where things that can be made again are kept: $NPDA_CACHE, or the user's cache directory."""
    if chosen := os.environ.get("NPDA_CACHE"):
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("npda"))


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file (.gz too), without line ends."""
    return list(stream_lines(path))


def stream_lines(path: str | Path) -> Iterator[str]:
    """The same, a line at a time: for files that need not fit into memory.

    Only LF and CRLF end a line: U+2028 and its like occur inside sentences of real corpora.
    """
    path = Path(path)
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}); compress or copy it again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def write_lines(path: str | Path, lines: list[str]) -> None:
    """Write lines as UTF-8 (gzipped when the name ends in .gz), atomically."""
    try:
        content = "".join(line + "\n" for line in lines).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{path} cannot be written: its text holds {error.object[error.start]!r}, a lone surrogate."
        ) from None
    with atomic_write(path) as temporary:
        # Without a time stamp the same lines give the same bytes.
        temporary.write_bytes(gzip.compress(content, mtime=0) if Path(path).suffix == ".gz" else content)


def audio_piece(name: str | Path) -> tuple[Path, int, int | None]:
    """Split "talk.wav:offset:length" into path, offset and length, counted in the file's own samples.

    A name without a piece has offset 0 and length None. An existing file whose name happens to end in
    two numbers is taken as it is.
    """
    match = _PIECE.fullmatch(str(name))
    if match is None or os.path.isfile(name):
        return Path(name), 0, None
    return Path(match["path"]), int(match["offset"]), int(match["length"])
