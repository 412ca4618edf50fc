"""Random samples of a corpus that keep its order, do not depend on its size in memory, and lie inside each other."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from npda.corpus.manifest import join_row
from npda.corpus.pairs import COLUMNS, Pair
from npda.io.errors import InputError


def chosen(total: int, count: int, seed: int) -> np.ndarray:
    """Which of `total` items are among `count` random ones: [total] bool; all of them when there are fewer.

    Every item draws a number that depends on the seed and its place alone, and the smallest are taken: a larger
    sample of the same seed holds every smaller one.
    """
    if count < 1 or seed < 0:
        raise InputError(f"A sample needs a size of at least 1 and a seed of at least 0, not {count} and {seed}.")
    # The raw numbers of a bit generator stay the same in every version of NumPy; those of a Generator need not.
    draws = np.random.PCG64(seed).random_raw(total)
    marks = np.zeros(total, dtype=bool)
    marks[np.argsort(draws, kind="stable")[:count]] = True
    return marks


def sample_pairs(pairs: Iterable[Pair], count: int, seed: int, folder: Path) -> Iterator[Pair]:
    """`count` random pairs of a stream, in its order.

    How many there are is known only at the end: until then they lie in a nameless file in `folder`, which
    disappears with the process, and memory holds nine bytes a pair.
    """
    with TemporaryFile(dir=folder) as spool:
        total = 0
        for pair in pairs:
            row = {name: getattr(pair, name) for name in COLUMNS}
            spool.write(f"{join_row(f'pair {total + 1}', row)}\n".encode())
            total += 1
        spool.seek(0)
        for line, taken in zip(spool, chosen(total, count, seed), strict=True):
            if taken:
                yield Pair(*line.decode().removesuffix("\n").split("\t"))
