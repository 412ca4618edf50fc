"""The embedded corpus: two domains of synthetic speech with translations, made on first use."""

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from npda.corpus.mini.layout import Mini
from npda.io.errors import InputError
from npda.io.files import atomic_directory, cache_dir

__all__ = ["Mini", "prepare", "version"]

_DESCRIPTION = "mini.json"
# Under this name npda 0.1.0 has kept the same corpus.
_EARLIER = {("5", "0.2.4"): "9eadd099"}


def prepare(
    language: str = "de",
    seed: int = 0,
    directory: Path | None = None,
    progress: bool = True,
    only: Collection[tuple[str, str]] | None = None,
) -> Mini:
    """Make the corpus, or find it made: speech, manifests and text pairs of every domain and split.

    The seed chooses the sentences and the voices. Without a directory the corpus lies in the cache, under a
    name that changes with the sentences and the synthesiser. It is built aside and published whole.

    only: the splits wanted, as (domain, split); the others are made when they are
    """
    made_of = {"version": version(), "language": language, "seed": seed}
    name = f"{made_of['version']}-{language}-{seed}"
    directory = cache_dir() / "mini" / name if directory is None else Path(directory).absolute()
    corpus, description = Mini(directory), directory / _DESCRIPTION
    if not description.is_file():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise InputError(f"{directory} exists and is not the embedded corpus; choose another directory.")
    elif json.loads(description.read_text()) != made_of:
        raise InputError(
            f"{directory} holds the embedded corpus of another language, seed or version; "
            "remove it or choose another directory."
        )
    # Again, if another process has just published the corpus with other splits.
    while missing := corpus.missing(only):
        from npda.corpus.mini.speech import record

        with atomic_directory(directory) as building:
            record(building, missing, language, seed, progress)
            (building / _DESCRIPTION).write_text(json.dumps(made_of, indent=2) + "\n")
            if description.is_file():
                _add(missing, Mini(building), corpus)
    return corpus


def _add(splits: Sequence[tuple[str, str]], made: Mini, corpus: Mini) -> None:
    """Move splits to the others; the manifest comes last, and tells that a split is there."""
    for key in splits:
        audio = corpus.audio(*key)
        audio.parent.mkdir(exist_ok=True)
        if not audio.exists():
            with suppress(FileExistsError, NotADirectoryError):  # another process was faster, with the same speech
                os.rename(made.audio(*key), audio)
        os.replace(made.text(*key), corpus.text(*key))
        os.replace(made.manifest(*key), corpus.manifest(*key))


def version() -> str:
    """Changes with the sentences, the voices and the synthesiser, so that a stale corpus is never taken for fresh.

    Not with the sources: moving a function would throw away every recording and every stage made from one.
    """
    from npda.corpus.mini.grammar import VERSION

    shaped_by = VERSION, metadata.version("espeakng-loader")
    return _EARLIER.get(shaped_by) or hashlib.sha256(" ".join(shaped_by).encode()).hexdigest()[:8]
