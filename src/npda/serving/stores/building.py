"""Building and changing the stores of a server: each change makes a new version, which appears whole or not at all.

DATA/versions/JOB/NAME is where a job makes its version; a change begins with links to the files of the present one,
none of which is ever written to. What is there when a server dies is what the job goes on with.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from npda.corpus.pairs import stream_pairs
from npda.datastore.build import build_store
from npda.datastore.edit import append_source, remove_source
from npda.datastore.source import BuildOptions, Source
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.io.files import atomic_write
from npda.models.backbone import Backbone
from npda.serving.engine.asks import Engine
from npda.serving.engine.lending import Lent, beside
from npda.serving.requests.receiving import FREE
from npda.serving.settings import Settings
from npda.serving.stores.card import Card, SourceCard, read_card, write_card
from npda.serving.stores.jobs import FOLDER, PAIRS, Job
from npda.serving.stores.library import StoreLibrary
from npda.serving.stores.progress import JobProgress
from npda.serving.stores.tuning import COST, tune_store

T = TypeVar("T")

_CHUNK = 2_048  # sentences that are read before they are written: some fifty megabytes of keys
_BASE = "base"  # beside a version in the making: the digest of the one it comes from
_LOOK = 1.0  # seconds between two looks at the disk


class StoreBuilder:
    """A ``Builder`` for the event loop that the engine lives on."""

    def __init__(self, settings: Settings, library: StoreLibrary, engine: Engine) -> None:
        self.settings, self.library, self.engine = settings, library, engine
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def run(self, job: Job, progress: JobProgress) -> dict[str, Any]:
        home = self._home(job)
        if not self._is_published(home):
            try:
                with self._lent(job) as lent:
                    self._make(job, home, lent, progress)
            except InputError as error:
                raise InputError(str(error).replace(str(home), job.target)) from None
            self._publish(job, home)
        info = self.library.version(job.target).info
        return {"keys": info.count, "sentences": sum(source.sentences for source in info.sources)}

    def discard(self, job: Job) -> None:
        if not self._is_published(self._home(job)):
            shutil.rmtree(self._home(job).parent, ignore_errors=True)

    def tidy(self, jobs: list[Job]) -> None:
        self.library.tidy([job.id for job in jobs])

    # how a version is made

    def _home(self, job: Job) -> Path:
        return self.library.versions / job.id / job.target

    def _is_published(self, home: Path) -> bool:
        link = self.library.stores / home.name
        return link.is_symlink() and link.resolve() == home.resolve()

    def _make(self, job: Job, home: Path, lent: Lent, progress: JobProgress) -> None:
        # Only now is it certain which model this store belongs to, should nobody have asked it for anything yet.
        self.library.belongs(lent.translator, job.spec["model"])
        check = _checks(progress, home)
        backbone = beside(lent.translator.backbone, lambda do: (check(), lent.turn(do))[1])
        progress.plan({"building": 1 + job.spec.get("pairs", 0), "tuning": COST})
        progress.begin("building")
        self._build(job, home, backbone)
        progress.begin("tuning")
        language = job.spec.get("language")
        tuned = tune_store(Datastore.open(home, backbone), backbone, lent.translator.directory, language)
        store = Datastore.open(home)
        by = "text" if tuned else "rule"
        write_card(home, _card(read_card(home), job).model_copy(
            update={"held_out": tuned, "tuned_keys": len(store) if tuned else None, "by": by}
        ))  # fmt: skip

    def _build(self, job: Job, home: Path, backbone: Backbone) -> None:
        """The keys; nothing where a run before this one got as far."""
        name, language = job.spec["source"], job.spec.get("language")
        options = BuildOptions(language=language, chunk=_CHUNK)
        pairs = self.settings.data / FOLDER / job.id / PAIRS
        source = Source(name, stream_pairs(pairs) if pairs.is_file() else (), "text", job.spec.get("pairs"))
        source = replace(source, licence=job.spec.get("licence", ""))
        if job.kind == "create":
            if not home.is_dir():
                home.parent.mkdir(parents=True, exist_ok=True)
                build_store(backbone, source, home, options)
            return
        if not home.is_dir():
            self._copy(job, home)
        is_there = any(known.name == name for known in Datastore.open(home).info.sources)
        if job.kind == "append" and not is_there:
            append_source(backbone, source, home, options)
        elif job.kind == "remove" and is_there:
            remove_source(home, name)

    def _copy(self, job: Job, home: Path) -> None:
        """The present version once more, by links."""
        version = self.library.version(job.target)
        known = [source.name for source in version.info.sources]
        if job.kind == "append" and job.spec["source"] in known:
            raise InputError(f"{job.target} has a source {job.spec['source']} already: give this one another name.")
        temporary = home.with_name(f".{home.name}.copy")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            shutil.copytree(version.path, temporary, copy_function=_link, ignore=shutil.ignore_patterns(".*"))
        except (OSError, shutil.Error) as error:
            raise InputError(f"{job.target} was changed in the meantime ({type(error).__name__}): try again.") from None
        with atomic_write(home.with_name(_BASE)) as file:
            file.write_text(version.store.digest, encoding="ascii")
        os.rename(temporary, home)

    def _publish(self, job: Job, home: Path) -> None:
        with self.library.editing():
            if job.kind == "create" and self.library.exists(job.target):
                raise InputError(f"A store called {job.target} exists already: choose another name.")
            if job.kind != "create":
                before = home.with_name(_BASE).read_text(encoding="ascii")
                if self.library.version(job.target).store.digest != before:
                    raise InputError(f"{job.target} was changed by somebody else in the meantime: try again.")
            self.library.publish(job.target, home)

    @contextmanager
    def _lent(self, job: Job) -> Iterator[Lent]:
        """The model of a job, from its thread."""
        assert self._loop is not None
        lending = self.engine.lent(job.spec["model"], job.spec.get("source_language"))
        lent = asyncio.run_coroutine_threadsafe(lending.__aenter__(), self._loop).result()
        try:
            yield lent
        finally:
            asyncio.run_coroutine_threadsafe(lending.__aexit__(None, None, None), self._loop).result()


def _card(card: Card, job: Job) -> Card:
    """With what is told of a new source, without what was told of one that is gone."""
    name, spec = job.spec["source"], job.spec
    sources = {known: told for known, told in card.sources.items() if known != name}
    if job.kind != "remove":
        told = SourceCard(
            licence=spec.get("licence", ""), origin=spec.get("origin", ""), user=job.user, added=job.created
        )
        sources[name] = told
    return card.model_copy(update={"sources": sources})


def _checks(progress: JobProgress, home: Path) -> Any:
    """What happens before each slice: is the job still wanted, is there still room?"""
    looked = 0.0

    def check() -> None:
        nonlocal looked
        progress.check()
        if time.monotonic() - looked > _LOOK:
            looked = time.monotonic()
            if shutil.disk_usage(home.parents[1]).free < FREE:
                raise InputError("The server's disk is full: remove stores, or send less.")

    return check


def _link(source: str, target: str) -> None:
    """The same file under another name; a copy where the disk has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
