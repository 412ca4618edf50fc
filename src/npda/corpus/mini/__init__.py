"""The embedded corpus: two domains of synthetic speech with translations, made on first use."""

import hashlib
import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from npda.errors import InputError
from npda.files import atomic_directory, cache_dir

_DESCRIPTION = "mini.json"


@dataclass(frozen=True)
class Mini:
    """The corpus on disk."""

    directory: Path

    def manifest(self, domain: str, split: str) -> Path:
        """The speech manifest of a split: `general/train.tsv`, its audio beside it in `general/train/`."""
        return self.directory / domain / f"{split}.tsv"

    def text(self, domain: str, split: str) -> Path:
        """The same sentences as a TSV of text pairs."""
        return self.directory / domain / f"{split}.text.tsv"


def prepare(language: str = "de", seed: int = 0, directory: Path | None = None, progress: bool = True) -> Mini:
    """Make the corpus, or find it made: speech, manifests and text pairs of every domain and split.

    The seed chooses the sentences and the voices. Without a directory the corpus lies in the cache, under a
    name that changes with the code and the synthesiser that made it. It is built aside and published whole.
    """
    made_of = {"version": version(), "language": language, "seed": seed}
    name = f"{made_of['version']}-{language}-{seed}"
    directory = cache_dir() / "mini" / name if directory is None else Path(directory).absolute()
    if not (directory / _DESCRIPTION).is_file():
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise InputError(f"{directory} exists and is not the embedded corpus; choose another directory.")
        from npda.corpus.mini.speech import record

        with atomic_directory(directory) as building:
            record(building, language, seed, progress)
            (building / _DESCRIPTION).write_text(json.dumps(made_of, indent=2) + "\n")
    elif json.loads((directory / _DESCRIPTION).read_text()) != made_of:
        raise InputError(
            f"{directory} holds the embedded corpus of another language, seed or version; "
            "remove it or choose another directory."
        )
    return Mini(directory)


def version() -> str:
    """A digest of everything that shapes the corpus, so that a stale one is never taken for a fresh one."""
    here = Path(__file__).parent
    digest = hashlib.sha256(metadata.version("espeakng-loader").encode())
    for source in sorted([*here.glob("*.py"), *here.rglob("*.yaml"), here.parent / "synthesis.py"]):
        if source.is_file():
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:8]
