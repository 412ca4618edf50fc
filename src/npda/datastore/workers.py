"""Who makes the parts of a store: this process, or many that see the same folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from npda.models.backbone import Backbone

Task = TypeVar("Task")
Made = TypeVar("Made")


class Workers(Protocol):
    """Processes that hold the same model."""

    def check(self, folder: Path) -> None:
        """Refuse a folder that not every worker sees."""
        ...

    def map(self, do: Callable[[Backbone, Task], Made], tasks: Iterable[Task]) -> Iterator[tuple[Task, Made]]:
        """Every task with what became of it, in their order. A task may be done twice, if a worker is lost."""
        ...

    def __len__(self) -> int: ...


# Workers that hold the model of a directory, told what is spoken; they are let go at the end.
WorkersFor = Callable[[Path, str | None, Backbone], AbstractContextManager[Workers]]


class Alone:
    """This process does everything."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone

    def check(self, folder: Path) -> None: ...

    def map(self, do: Callable[[Backbone, Task], Made], tasks: Iterable[Task]) -> Iterator[tuple[Task, Made]]:
        return ((task, do(self._backbone, task)) for task in tasks)

    def __len__(self) -> int:
        return 1
