"""A fake engine whose lent models compute when a test lets them."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import serving_fakes
import tiny_store

from npda.serving.lending import Lent
from npda.translator import Translator

PATIENCE = 120.0  # seconds after which something hangs


class HeldEngine(serving_fakes.FakeEngine):
    """go: cleared, slices wait; before: called with the number of every slice"""

    def __init__(self, translator: Translator | None = None) -> None:
        super().__init__()
        self.translator = translator or Translator(tiny_store.backbone())
        self.go = threading.Event()
        self.go.set()
        self.slices = 0
        self.before: Callable[[int], object] = lambda number: None

    @asynccontextmanager
    async def lent(self, model: str, source_language: str | None = None) -> AsyncGenerator[Lent, None]:
        def turn(do: Any) -> Any:
            self.slices += 1
            self.before(self.slices)
            if not self.go.wait(PATIENCE):
                raise TimeoutError("the test never let it go on")
            return do()

        yield Lent(self.translator, turn)
