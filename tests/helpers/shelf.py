"""Stores of a server for tests: opened once, held by whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from npda.datastore.store import Datastore
from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.steering import steer, tuned_search
from npda.serving.engine.asks import AUTO, StoreCard, Way
from npda.serving.errors import Refusal
from npda.translator import Translator


class Shelf:
    """A ``Library``. readers: of all stores, now; counter: general text for the guard, None to do without"""

    def __init__(self, stores: dict[str, Datastore], counter: Datastore | None = None) -> None:
        self.stores = stores
        self.counter = counter
        self.readers = 0

    def cards(self, model: str | None = None) -> list[StoreCard]:
        return [StoreCard(name, model or "", len(store), (), False, {}) for name, store in self.stores.items()]

    def held(self, translator: Translator, model: str, names: tuple[str, ...] | Literal["auto"]) -> Holding:
        names = tuple(self.stores) if names == AUTO else names
        for name in names:
            if name not in self.stores:
                raise Refusal(404, f"There is no store {name!r}.", "stores")
        return Holding(self, names)


class Holding:
    """A ``Held``."""

    def __init__(self, shelf: Shelf, names: Sequence[str]) -> None:
        self.shelf = shelf
        self.signature = tuple(names)
        self.stores = [shelf.stores[name] for name in names]

    def fusion(self, translator: Translator, way: Way) -> Fusion | None:
        return steer(translator.backbone, self.stores, self.shelf.counter, way.chosen) if self.stores else None

    def options(self, way: Way) -> SearchOptions:
        return way.options or tuned_search(self.stores)

    def __enter__(self) -> Holding:
        self.shelf.readers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.shelf.readers -= 1
