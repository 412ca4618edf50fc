"""A folder to build a store in that survives ``kill -9``: a later run with the same plan continues from there."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.io.locks import locked
from npda.io.records import as_json, read_record

logger = logging.getLogger(__name__)

_PLAN = "plan.json"


class Workspace:
    """A folder beside the store that it is going to become.

    store: the new files, laid out as in a datastore; index_parts: pieces of the index;
    finished_shards: one record per shard that is whole
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store"
        self.index_parts = root / "parts"
        self.finished_shards = root / "records"

    @property
    def plan(self) -> dict[str, object]:
        """What was begun here; empty if nothing was."""
        return read_record(self.root / _PLAN)

    def continue_or_restart(self, plan: dict[str, object]) -> None:
        """Keep what is there if it was begun with the same plan, else empty the folder."""
        path = self.root / _PLAN
        if self.plan == as_json(plan):
            logger.info("Continuing the interrupted work in %s.", self.root)
        else:
            if any(self.root.iterdir()):
                logger.warning("%s belongs to another model, input or setting: starting afresh.", self.root)
            empty_folder(self.root)
            with atomic_write(path) as temporary:
                temporary.write_text(json.dumps(plan, sort_keys=True), encoding="utf-8")
        self._make_folders()

    def restart(self) -> None:
        """Discard whatever an interrupted run left here."""
        if any(self.root.iterdir()):
            logger.warning("%s was left by an interrupted run: starting afresh.", self.root)
        empty_folder(self.root)
        self._make_folders()

    def _make_folders(self) -> None:
        for folder in (self.store, self.index_parts, self.finished_shards):
            folder.mkdir(exist_ok=True)


@contextmanager
def open_workspace(root: Path) -> Iterator[Workspace]:
    """Only one process at a time works here.

    The folder is removed at the end, and after an error that left no finished shard to continue from.
    """
    root.mkdir(parents=True, exist_ok=True)
    with locked(root):
        work = Workspace(root)
        try:
            yield work
        except BaseException:
            if not any(work.finished_shards.glob("*")):
                shutil.rmtree(root)
            raise
        shutil.rmtree(root)


def clear_published(root: Path) -> None:
    """Remove what a killed run left of a workspace whose store had got its name already."""
    if root.is_dir() and not Workspace(root).store.exists():
        with suppress(InputError, OSError), locked(root):  # somebody is at work there
            shutil.rmtree(root)


def empty_folder(folder: Path) -> None:
    """Remove everything in a folder, but not the folder itself, which is locked."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
