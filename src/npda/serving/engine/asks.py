"""What is asked of the engine, and what it answers: the seam between requests and models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np

from npda.decoding.beam import SearchOptions
from npda.decoding.fusion import Fusion
from npda.decoding.knn.steering import Chosen
from npda.segmentation import Pauses
from npda.terms.termbase import Terms

if TYPE_CHECKING:
    from npda.explanation.records import Explanation
    from npda.serving.engine.lending import Lent
    from npda.translation import Translation
    from npda.translator import Translator
    from npda.writers import Segment

T = TypeVar("T")

AUTO = "auto"  # all stores of the model, the domain is found per utterance


@dataclass(frozen=True)
class Way:
    """How to translate. Utterances of equal ways are decoded with the same fusion; different ones share a batch.

    model: a name of the settings; source_language, language: codes, None for the server's;
    stores: names of the library, or "auto"; chosen: k, λ and T instead of what stores were tuned to;
    terms: learnt lists; options: None for what the first store was tuned with
    """

    model: str
    source_language: str | None = None
    language: str | None = None
    stores: tuple[str, ...] | Literal["auto"] = AUTO
    chosen: Chosen = field(default_factory=Chosen)
    terms: Terms | None = None
    options: SearchOptions | None = None


class Engine(Protocol):
    """All of it raises ``Refusal``: 503 when too much waits, 504 after the time limit, 404 for unknown names.

    A call whose task is cancelled, as when its client has gone, takes no more of the machine.
    """

    async def utterance(self, samples: np.ndarray, way: Way, begins: Sequence[int] = ()) -> Translation:
        """One utterance that the model takes whole.

        samples: [n] float32 at 16 kHz; begins: tokens that the translation begins with, as ``Translation.tokens`` are
        """
        ...

    def segments(self, samples: np.ndarray, way: Way, pauses: Pauses = Pauses()) -> AsyncIterator[Segment]:
        """A recording of any length, cut at its pauses, in order, each as soon as it is there. Silence gives none."""
        ...

    async def explain(self, samples: np.ndarray, way: Way) -> Explanation:
        """One utterance, with the neighbours behind every word."""
        ...

    async def run(self, model: str, work: Callable[[Translator], T]) -> T:
        """Something short that needs the model, between two batches: keys of a correction, a few terms."""
        ...

    def lent(self, model: str, source_language: str | None = None) -> AbstractAsyncContextManager[Lent]:
        """A model for long work in a thread of its own, which computes in slices between batches. It stays loaded, and
        the work takes no place of the queue."""
        ...

    def longest(self, model: str) -> Awaitable[float]:
        """Seconds of the longest utterance that the model takes."""
        ...

    @property
    def waiting(self) -> int:
        """Utterances that wait, or are about to."""
        ...

    def is_loaded(self, model: str) -> bool:
        """Whether a model is in memory."""
        ...

    async def close(self, drain: bool = True) -> None:
        """Take no new requests, and finish those that were accepted, or refuse them too."""
        ...


@dataclass(frozen=True)
class StoreCard:
    """What people see of a store; ``card`` is what the store says of itself (sources, tuning, gain, harm)."""

    name: str
    model: str
    keys: int
    sources: Sequence[str]
    editable: bool
    card: dict[str, Any]


class Library(Protocol):
    """The stores that a server knows. Threads may share it; unknown names raise ``Refusal`` with 404."""

    def cards(self, model: str | None = None) -> list[StoreCard]:
        """All stores, or those of a model, in the order of their names."""
        ...

    def held(self, translator: Translator, model: str, names: tuple[str, ...] | Literal["auto"]) -> Held:
        """The present versions of these stores, opened for this model; they stay as they are until released."""
        ...


class Held(Protocol):
    """Versions of stores in use. A context manager: what is no longer current is freed with its last
    reader.

    signature: equal for equal versions of equal stores
    """

    signature: tuple[str, ...]

    def fusion(self, translator: Translator, way: Way) -> Fusion | None:
        """What steers the search as the way asks for, corrections included; None if there is nothing to steer by."""
        ...

    def options(self, way: Way) -> SearchOptions:
        """How to search with them: the way's options, or those that the first store was tuned with."""
        ...

    def __enter__(self) -> Held: ...

    def __exit__(self, *_: object) -> None: ...
