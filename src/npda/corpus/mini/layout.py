"""Where the files of the embedded corpus lie."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mini:
    """The corpus on disk."""

    directory: Path

    def manifest(self, domain: str, split: str) -> Path:
        """The speech manifest of a split: `general/train.tsv`, its audio beside it in `general/train/`."""
        return self.directory / domain / f"{split}.tsv"

    def audio(self, domain: str, split: str) -> Path:
        """The folder of its recordings."""
        return self.directory / domain / split

    def text(self, domain: str, split: str) -> Path:
        """The same sentences as a TSV of text pairs."""
        return self.directory / domain / f"{split}.text.tsv"

    def missing(self, only: Collection[tuple[str, str]] | None = None) -> list[tuple[str, str]]:
        """The splits not made yet, of all or of those wanted."""
        from npda.corpus.mini.grammar import SPLITS

        return [key for key in SPLITS if (only is None or key in only) and not self.manifest(*key).is_file()]
