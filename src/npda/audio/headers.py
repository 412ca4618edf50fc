"""How long a sound file says that it is: what a library that reads it to its end, wherever that is, does not tell."""

from __future__ import annotations

import struct
from pathlib import Path

_UNKNOWN = (0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)  # sizes of those who write into a pipe, and cannot go back
_HEAD = 1 << 16  # bytes in which a header has to be
_LAST_PAGE = 1 << 17  # bytes at the end of an Ogg file that hold a whole page


def promised_seconds(file: Path) -> float | None:
    """None where a file does not say, or is whole; inf where it is not and nobody knows how long it was."""
    try:
        with open(file, "rb") as content:
            start = content.read(4)
        reader = next((reader for name, reader in _READERS.items() if start.startswith(name)), None)
        return reader(file) if reader is not None else None
    except (OSError, struct.error, ZeroDivisionError):
        return None


def _wav(file: Path) -> float | None:
    """By the size of its data chunk."""
    rate = 0
    with open(file, "rb") as content:
        if content.read(4) != b"RIFF":
            return None
        content.seek(12)
        while len(head := content.read(8)) == 8 and content.tell() < _HEAD:
            name, size = head[:4], struct.unpack("<I", head[4:])[0]
            if name == b"data":
                return None if size in _UNKNOWN or size >= 0xFFFFFF00 or not rate else size / rate
            if name == b"fmt ":
                rate = struct.unpack("<I", content.read(size)[8:12])[0]  # bytes a second
                size = 0
            content.seek(size + size % 2, 1)
    return None


def _mp3(file: Path) -> float | None:
    """By the Xing or Info header: its frames, and what is there of the bytes that it counts."""
    size = file.stat().st_size
    with open(file, "rb") as content:
        start = content.read(_HEAD)
    place = max(start.find(b"Xing"), start.find(b"Info"))
    if place < 4:
        return None
    flags, frames, count = struct.unpack(">III", start[place + 4 : place + 16])
    sync = start.rfind(b"\xff", 0, place)
    if flags & 3 != 3 or sync < 0 or not count:
        return None
    version, rates = start[sync + 1] >> 3 & 3, (44_100, 48_000, 32_000, 0)
    rate = rates[start[sync + 2] >> 2 & 3] // {3: 1, 2: 2, 0: 4}.get(version, 1)
    # A byte count that fits says that nothing is missing, whatever the decoder leaves off at the ends.
    return None if size - sync >= count else frames * (1152 if version == 3 else 576) / rate


def _ogg(file: Path) -> float | None:
    """A page at the end that is not whole."""
    size = file.stat().st_size
    with open(file, "rb") as content:
        content.seek(max(0, size - _LAST_PAGE))
        end = content.read()
    place = end.rfind(b"OggS")
    if place < 0 or len(end) < place + 27:
        return float("inf")
    segments = end[place + 26]
    body = sum(end[place + 27 : place + 27 + segments])
    whole = place + 27 + segments + body <= len(end)
    return None if whole else float("inf")


def _aiff(file: Path) -> float | None:
    """By the size of the whole."""
    return _whole(file, ">I", 4, 8)


def _w64(file: Path) -> float | None:
    return _whole(file, "<Q", 16, 0)


def _rf64(file: Path) -> float | None:
    return _whole(file, "<Q", 20, 8)


def _au(file: Path) -> float | None:
    """By the place and the size of its data."""
    with open(file, "rb") as content:
        start, size = struct.unpack(">II", content.read(12)[4:])
    return None if size in _UNKNOWN or start + size <= file.stat().st_size else float("inf")


def _caf(file: Path) -> float | None:
    """By the sizes of its chunks."""
    whole = file.stat().st_size
    with open(file, "rb") as content:
        content.seek(8)
        while len(head := content.read(12)) == 12:
            (size,) = struct.unpack(">q", head[4:])
            if size < 0:
                return None
            if content.tell() + size > whole:
                return float("inf")
            content.seek(size, 1)
    return None


def _whole(file: Path, size: str, place: int, more: int) -> float | None:
    with open(file, "rb") as content:
        (promised,) = struct.unpack_from(size, content.read(64), place)
    unknown = promised in _UNKNOWN or promised == 0xFFFFFFFFFFFFFFFF
    return None if unknown or promised + more <= file.stat().st_size else float("inf")


_READERS = {b"RIFF": _wav, b"RF64": _rf64, b"riff": _w64, b"FORM": _aiff, b"OggS": _ogg, b".snd": _au, b"caff": _caf}
_READERS |= {b"ID3": _mp3, b"\xff": _mp3}
