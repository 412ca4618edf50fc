"""What reads bytes from outside, each as a function of bytes. It returns, or raises ``InputError``: nothing else."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from npda import audio
from npda.corpus.languages import language_code
from npda.corpus.manifest import read_manifest
from npda.corpus.pairs import read_pairs
from npda.corpus.sheets import stream_sheet
from npda.corpus.terms import read_terms
from npda.corpus.tmx import read_tmx
from npda.datastore.format import INFO, parse_info
from npda.datastore.index.spec import check_factory
from npda.io.errors import InputError
from npda.io.files import audio_piece, read_lines
from npda.io.sealed import opened
from npda.io.terminal import printable
from npda.models.weights import read_weights
from npda.reproduce.recipe.loading import read_yaml

_FOLDER = tempfile.mkdtemp(prefix="faults-targets-")


def of_file(read: Callable[[Path], object], suffix: str) -> Callable[[bytes], None]:
    path = Path(_FOLDER) / f"x{suffix}"

    def target(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    return target


def of_text(read: Callable[[str], object]) -> Callable[[bytes], None]:
    return lambda data: void(read(data.decode(errors="surrogateescape")))


def void(_: object) -> None:
    pass


def _sealed(data: bytes) -> None:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        opened(content)
    except ValueError as error:
        raise InputError(str(error)) from None


def _printable(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert "\x1b" not in shown


TARGETS: dict[str, Callable[[bytes], None]] = {
    "pairs": of_file(read_pairs, ".tsv"),
    "lines": of_file(read_lines, ".gz"),
    "manifest": of_file(read_manifest, ".tsv"),
    "sheet": of_file(lambda path: list(stream_sheet(path)), ".csv"),
    "terms": of_file(read_terms, ".csv"),
    "tmx": of_file(lambda path: read_tmx(path, "en", "de"), ".tmx"),
    "recipe": of_file(read_yaml, ".yaml"),
    "datastore.json": lambda data: void(parse_info(Path(INFO), data)),
    "sealed": _sealed,
    "weights": of_file(read_weights, ".safetensors"),
    "audio": of_file(audio.load, ".wav"),
    "language": of_text(language_code),
    "factory": of_text(lambda text: check_factory(text, 64)),
    "piece": of_text(audio_piece),
    "terminal": of_text(_printable),
}


def tried(name: str, data: bytes) -> None:
    """Give a target something; what is no refusal is raised."""
    with contextlib.suppress(InputError):
        TARGETS[name](data)
