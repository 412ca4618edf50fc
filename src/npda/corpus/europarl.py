"""Europarl v7: the proceedings of the European Parliament as pairs of line-aligned files.

ROOT/europarl-v7.de-en.de      .gz too
ROOT/europarl-v7.de-en.en
"""

from collections.abc import Iterator
from pathlib import Path

from npda.corpus.layout import expect_folder, language_code
from npda.corpus.pairs import Pair, stream_moses
from npda.io.errors import InputError

SAMPLE = 2_000_000  # pairs of a direction in the paper


def files(root: str | Path, language: str) -> tuple[Path, Path]:
    """The English file and the one of the other language."""
    stem = f"europarl-v7.{language_code(language)}-en"
    layout = f"Europarl is expected as ROOT/{stem}.en and ROOT/{stem}.{language}: unpack {language}-en.tgz in ROOT."
    folder = expect_folder(Path(root), layout=layout)
    return _file(folder, f"{stem}.en", layout), _file(folder, f"{stem}.{language}", layout)


def stream(root: str | Path, language: str) -> Iterator[Pair]:
    """The pairs from English into a language, one at a time; those with an empty side are skipped, with a warning."""
    pairs = stream_moses(*files(root, language))
    return (Pair(pair.src_text, pair.tgt_text, tgt_lang=language) for pair in pairs)


def _file(folder: Path, name: str, layout: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise InputError(f"There is no file {folder / name}, nor {name}.gz. {layout}")
