"""A place to work in that survives ``kill -9``: what was finished is found again, if the plan is still the same."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npda.io.files import atomic_write
from npda.io.locks import locked

logger = logging.getLogger(__name__)

_PLAN = "plan.json"


class Workspace:
    """A folder beside what it is going to become.

    store: the new files, laid out as in a datastore; parts: pieces of the index; records: what is finished
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store"
        self.parts = root / "parts"
        self.records = root / "records"

    def begin(self, plan: dict[str, object]) -> None:
        """Go on with what is there if it was begun with the same plan, else start afresh."""
        path = self.root / _PLAN
        if path.is_file() and path.read_text(encoding="utf-8") == json.dumps(plan, sort_keys=True):
            logger.info("Continuing the interrupted work in %s.", self.root)
        else:
            if any(self.root.iterdir()):
                logger.warning("%s is of another model, input or setting: starting afresh.", self.root)
            clear(self.root)
            with atomic_write(path) as temporary:
                temporary.write_text(json.dumps(plan, sort_keys=True), encoding="utf-8")
        for folder in (self.store, self.parts, self.records):
            folder.mkdir(exist_ok=True)


@contextmanager
def workspace(root: Path) -> Iterator[Workspace]:
    """One process at a time works here. The folder goes when all is done, or when an error leaves nothing to keep."""
    root.mkdir(parents=True, exist_ok=True)
    with locked(root):
        work = Workspace(root)
        try:
            yield work
        except BaseException:
            if not any(work.records.glob("*")):
                shutil.rmtree(root)
            raise
        shutil.rmtree(root)


def clear(folder: Path) -> None:
    """Remove everything in a folder, but not the folder, which is locked."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
