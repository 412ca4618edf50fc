"""A fake engine whose lent models compute when a test lets them."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import serving_fakes
import tiny_store

from npda.datastore.store import Datastore
from npda.serving.engine.lending import Lent
from npda.translator import Translator

PATIENCE = 400.0  # seconds after which something hangs


def assert_alike(store: Datastore, other: Datastore) -> None:
    """The same sentences and keys; their last digits depend on how many threads have computed."""
    for one, two in zip(store.entries.shards, other.entries.shards, strict=True):
        assert (one.info.name, one.info.source, one.first) == (two.info.name, two.info.source, two.first)
        assert one.all_texts() == two.all_texts()
        np.testing.assert_array_equal(one.values, two.values)
        np.testing.assert_allclose(np.float32(one.keys), np.float32(two.keys), atol=2e-2)


class HeldEngine(serving_fakes.FakeEngine):
    """go: cleared, slices wait; held: one waits now; slices: begun so far; before: called with the number of each"""

    def __init__(self, translator: Translator | None = None) -> None:
        super().__init__()
        self.translator = translator or Translator(tiny_store.backbone())
        self.go = threading.Event()
        self.go.set()
        self.slices = 0
        self.held = False
        self.before: Callable[[int], object] = lambda number: None

    @asynccontextmanager
    async def lent(self, model: str, source_language: str | None = None) -> AsyncGenerator[Lent, None]:
        def turn(do: Any) -> Any:
            self.slices += 1
            self.before(self.slices)
            self.held = not self.go.is_set()
            if not self.go.wait(PATIENCE):
                raise TimeoutError("the test never let it go on")
            self.held = False
            return do()

        yield Lent(self.translator, turn)
