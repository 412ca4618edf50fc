"""Models for long work, such as building a store, beside the translations that the same models are busy with.

The work runs in a thread of its own, with a backbone whose every call waits for its turn on the machine: one batch of
sentences to be read, or one step of a search. Between two of them translations have theirs.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from npda.models.backbone import Backbone, Memory, Stream
from npda.serving.engine.machine import Machine, Work
from npda.translator import Translator

T = TypeVar("T")


class Turn(Protocol):
    """Does something on the machine, and waits for it; never to be called on the event loop."""

    def __call__(self, do: Callable[[], T], /) -> T: ...


@dataclass(frozen=True)
class Lent:
    """translator: as it is served; turn: for what has to be computed with it"""

    translator: Translator
    turn: Turn


def slices(machine: Machine) -> Turn:
    """Turns on a machine, for threads other than its own and that of the running event loop."""
    loop = asyncio.get_running_loop()
    request = object()  # one for all of them, so that they wait in the line like one client

    def turn(do: Callable[[], T], /) -> T:
        work = Work(request, None, 0, time.monotonic(), do=do)
        return asyncio.run_coroutine_threadsafe(machine.compute(work), loop).result()

    return turn


def beside(backbone: Backbone, turn: Turn) -> Backbone:
    """The same model, weights in common, whose encoder, decoder and output layer compute at their turns."""

    def at_its_turn(compute: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*given: Any, **named: Any) -> Any:
            def do() -> Any:
                with torch.inference_mode():  # which belongs to a thread
                    return compute(*given, **named)

            return turn(do)

        return wait

    def start(memory: Memory, beam: int) -> Stream:
        return _Stream(turn, turn(lambda: backbone.start(memory, beam)))

    other: Any = copy.copy(backbone)
    for name in ("hear", "read", "states", "logits"):
        setattr(other, name, at_its_turn(getattr(backbone, name)))
    other.start = start
    return other


class _Stream:
    """A ``Stream`` whose steps are computed at their turns; what is its own is done at once."""

    def __init__(self, turn: Turn, stream: Stream) -> None:
        self._turn, self._stream = turn, stream
        self.reorder, self.keep = stream.reorder, stream.keep

    def step(self, tokens: Tensor) -> Tensor:
        def do() -> Tensor:
            with torch.inference_mode():
                return self._stream.step(tokens)

        return self._turn(do)
