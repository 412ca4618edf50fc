"""What reading needs of an open audio file, whichever library opened it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from npda.io.errors import InputError

_RATES = 2_000, 1_000_000  # samples a second
BLOCK = 10  # seconds read at a time


class Sound(Protocol):
    """An open audio file."""

    rate: int  # samples a second

    def seconds(self) -> float:
        """How long the file lasts, as it says of itself."""
        ...

    def count(self) -> int:
        """How many samples it holds."""
        ...

    def blocks(self, offset: int, length: int | None) -> Iterator[tuple[np.ndarray, bool]]:
        """The samples from `offset` on, `length` of them or all: [n] float32 with channels averaged, and whether
        the block is the last one."""
        ...


def check_rate(file: Path, rate: int) -> None:
    """Refuse a rate at which nothing can be understood, and by which a second would be hours."""
    if not _RATES[0] <= rate <= _RATES[1]:
        raise InputError(
            f"{file} claims {rate:,} samples a second, which is not a rate for speech "
            f"({_RATES[0]:,} to {_RATES[1]:,}): correct its header, or export it again."
        )


class CutOff(InputError):
    """A file of which only the beginning can be read. samples: [n] float32 at 16 kHz, where it was read as a whole"""

    samples: np.ndarray | None = None


def cut_off(file: Path, read: float, promised: float) -> CutOff:
    """What could be read of a file that promises more. read, promised: seconds; inf: unknown"""
    of = f"of the {promised:.1f} s that it promises" if promised < float("inf") else "of an unknown length"
    return CutOff(f"{file} is cut off: {read:.1f} s could be read {of}; copy or download it again.")


def check_piece(file: Path, offset: int, length: int | None, samples: int) -> None:
    """Refuse a piece that ends after the file."""
    if length is not None and offset + length > samples:
        raise InputError(
            f"{file}:{offset}:{length} ends at sample {offset + length}, but {file} has only {samples} samples; "
            "offset and length count samples of the file's own rate."
        )
