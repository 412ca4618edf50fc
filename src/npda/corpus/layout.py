"""The folders of published corpora: names that are safe in a path, and sentences for what is missing."""

import re
from pathlib import Path

from npda.io.errors import InputError


def language_code(language: str) -> str:
    """A language as corpora name their folders by it: two or three small letters."""
    if not re.fullmatch(r"[a-z]{2,3}", language):
        raise InputError(f"{language!r} is not the code of a language; write it as de or fr.")
    return language


def file_name(where: str, name: str) -> str:
    """A name read from a corpus, which must lead to no other folder."""
    if not name or name in (".", "..") or any(character in name for character in "/\\\0"):
        raise InputError(f"{where}: {name!r} is not the name of a file; a recording is named without its folder.")
    return name


def expect_folder(root: Path, *names: str, layout: str) -> Path:
    """root/names…, or a sentence that names the first part that is missing. layout: what is expected, a sentence"""
    path = root
    for name in ("", *names):
        path = path / name
        if not path.is_dir():
            raise InputError(f"There is no folder {path}. {layout}")
    return path


def expect_file(path: Path, layout: str) -> Path:
    if not path.is_file():
        raise InputError(f"There is no file {path}. {layout}")
    return path
