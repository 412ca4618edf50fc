"""What reading needs of an open audio file, whichever library opened it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from npda.io.errors import InputError

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


def check_piece(file: Path, offset: int, length: int | None, samples: int) -> None:
    """Refuse a piece that ends after the file."""
    if length is not None and offset + length > samples:
        raise InputError(
            f"{file}:{offset}:{length} ends at sample {offset + length}, but {file} has only {samples} samples; "
            "offset and length count samples of the file's own rate."
        )
