"""Reading and writing files at the door: atomic writes, UTF-8 lines, the cache directory."""

import gzip
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npda.io.errors import InputError

_PIECE = re.compile(r"(?P<path>.+):(?P<offset>\d+):(?P<length>\d+)", re.DOTALL)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary sibling to write to; it replaces `path` on success and is removed on error.

    The sibling keeps the suffix of `path`, since some writers choose their format by it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(path)
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
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _sibling(path)
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


def _sibling(path: Path) -> Path:
    return path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")


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
