"""What lies over the stores of a server: their corrections, each store's own."""

from __future__ import annotations

from typing import Protocol

from npda.datastore.retrieval.overlaid import Overlay


class Overlays(Protocol):
    """Keys that were added while people work. belongs: digests of decoder and vocabulary. Threads may share it."""

    def of(self, store: str, belongs: tuple[str, str]) -> Overlay | None:
        """What lies over a store now; None if nothing does."""
        ...

    def stores(self, belongs: tuple[str, str] | None = None) -> list[str]:
        """Names of the stores over which something lies, of all models or of one."""
        ...

    def counts(self, store: str) -> dict[tuple[str, str], int]:
        """Keys over a store, by the models they are of."""
        ...

    def remove_all(self, store: str) -> int:
        """Take away what lies over a store. → how many sentences"""
        ...
