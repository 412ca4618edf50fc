"""Work on stores that takes long: queued, done one after the other in a thread, shown, cancelled, and never lost.

Jobs lie in the database. One that was at work when the server ended goes on when it starts again, from whatever its
builder finds on the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from npda.io.errors import InputError
from npda.io.progress import shown_on
from npda.serving.database import Database
from npda.serving.errors import Refusal
from npda.serving.logs import REQUEST, log_request
from npda.serving.metrics import Metrics
from npda.serving.stores.progress import JobProgress, Stopped

Kind = Literal["create", "append", "remove"]
State = Literal["queued", "running", "done", "failed", "cancelled"]
STATES: tuple[State, ...] = ("queued", "running", "done", "failed", "cancelled")
FOLDER, PAIRS = "jobs", "pairs.tsv"

_AT_WORK = ("queued", "running")
_KEPT = 50  # jobs that have ended
_TRIES = 3  # times that a job may be under way when the server dies
_PATIENCE = 60.0  # seconds that the end of a slice is waited for when the server ends

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """target: the store; user: the name of the key; spec: what it was asked for; result: what came of it;
    place: in the queue, from 1 on; times in seconds since 1970
    """

    id: str
    number: int
    kind: Kind
    target: str
    user: str
    state: State
    spec: Mapping[str, Any]
    created: float
    started: float | None = None
    ended: float | None = None
    error: str | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    progress: float = 0.0
    step: str = ""
    eta: float | None = None
    place: int | None = None

    @property
    def at_work(self) -> bool:
        return self.state in _AT_WORK


class Builder(Protocol):
    """Does the work of jobs, in their thread."""

    def start(self) -> None:
        """Called on the event loop before the first job."""
        ...

    def run(self, job: Job, progress: JobProgress) -> dict[str, Any]:
        """All of a job, or the rest of one that was broken off. InputError or Refusal: it cannot be done. → result"""
        ...

    def discard(self, job: Job) -> None:
        """Remove what a job has left that will not be gone on with."""
        ...

    def tidy(self, jobs: list[Job]) -> None:
        """Remove what no job will go on with. jobs: those that will"""
        ...


class Jobs:
    """All methods but ``start`` and ``close`` may be called by any thread."""

    def __init__(self, database: Database, data: Path, builder: Builder, metrics: Metrics, most: int) -> None:
        """most: jobs that may wait"""
        self.database, self.folder, self.builder = database, data / FOLDER, builder
        self._metrics, self._most = metrics, most
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._progress: dict[str, JobProgress] = {}  # of the job at work
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_up()

    def start(self) -> None:
        """Begin to work; called on the event loop. The thread ends with ``close``."""
        self.builder.start()
        self._thread = threading.Thread(target=self._work, name="npda-jobs", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop at the end of the slice that is being computed; the job goes on at the next start."""
        with self._changed:
            self._closing = True
            for progress in self._progress.values():
                progress.stop()
            self._changed.notify_all()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _PATIENCE)

    def new_id(self) -> str:
        return f"job_{secrets.token_hex(12)}"

    def folder_of(self, id: str) -> Path:
        """Where the input of a job lies for as long as it is at work."""
        return self.folder / id

    def forget(self, id: str) -> None:
        """Remove the input of a job that was never added."""
        shutil.rmtree(self.folder_of(id), ignore_errors=True)

    def add(self, id: str, kind: Kind, target: str, user: str, spec: Mapping[str, Any]) -> Job:
        """Queue a job. 503 where too many wait."""
        with self._changed, self.database.together():
            if self._count("queued") >= self._most:
                raise Refusal(
                    503, "Too many jobs are waiting: try again when some are done.", code="busy",
                    headers={"Retry-After": "60"},
                )  # fmt: skip
            row = self.database.row("SELECT MAX(number) AS last FROM jobs")
            number = 1 + ((row["last"] if row else None) or 0)
            self.database.change(
                "INSERT INTO jobs (id, number, kind, target, user, state, created, spec) "
                "VALUES (?, ?, ?, ?, ?, 'queued', ?, ?)",
                *(id, number, kind, target, user, time.time(), json.dumps(dict(spec))),
            )
            job = self.get(id)
            self._log(job, "queued")
            self._changed.notify_all()
        self._tell()
        return job

    def listed(self) -> list[Job]:
        """Those that have ended lately, then those at work, in the order of their arrival."""
        with self._changed:
            rows = self.database.rows("SELECT * FROM jobs ORDER BY number")
            places = {id: place for place, id in enumerate((r["id"] for r in rows if r["state"] == "queued"), start=1)}
            return [self._job(row, places.get(row["id"])) for row in rows]

    def get(self, id: str) -> Job:
        found = next((job for job in self.listed() if job.id == id), None)
        if found is None:
            raise Refusal(404, f"There is no job {id[:80]!r}: GET /v1/jobs lists them.", "id", "job_not_found")
        return found

    def busy_with(self, target: str) -> Job | None:
        """The first job at work on a store."""
        return next((job for job in self.listed() if job.target == target and job.at_work), None)

    def cancel(self, id: str) -> Job:
        """A job that waits is gone at once, one at work when its slice has ended."""
        with self._changed:
            job = self.get(id)
            if job.state == "queued":
                self._end(job, "cancelled")
            elif job.state == "running" and id in self._progress:
                self._progress[id].cancel()
            elif job.state != "cancelled":
                raise Refusal(409, f"The job has ended already, it is {job.state}.", "id", "job_ended")
        return self.get(id)

    # the thread

    def _work(self) -> None:
        while (found := self._next()) is not None:
            job, progress = found
            context = copy_context()
            context.run(REQUEST.set, str(job.spec.get("request", "")))
            context.run(self._run, job, progress)

    def _next(self) -> tuple[Job, JobProgress] | None:
        """Wait for a job and begin it; None when the server ends."""
        with self._changed:
            while not self._closing:
                job = next((job for job in self.listed() if job.state == "queued"), None)
                if job is not None:
                    spec = {**job.spec, "begun": job.spec.get("begun", 0) + 1}
                    self.database.change(
                        "UPDATE jobs SET state = 'running', started = ?, spec = ? WHERE id = ?",
                        *(time.time(), json.dumps(spec), job.id),
                    )
                    progress = self._progress[job.id] = JobProgress()
                    return job, progress
                self._changed.wait()
        return None

    def _run(self, job: Job, progress: JobProgress) -> None:
        self._tell()
        self._log(job, "running")
        state: State = "failed"
        error, result = None, {}
        try:
            with shown_on(progress):
                result = self.builder.run(job, progress)
            state = "done"
        except Stopped:
            if not progress.cancelled:
                self._put_back(job)
                return
            state = "cancelled"
        except (InputError, Refusal) as refusal:
            if self._closing and isinstance(refusal, Refusal):  # the machine has stopped first
                self._put_back(job)
                return
            error = str(refusal)
        except Exception:
            logger.exception("the job %s has failed", job.id)
            error = f"Something went wrong here; the server's log tells more under {job.id}."
        with self._changed:
            self._end(job, state, error, result)

    def _end(self, job: Job, state: State, error: str | None = None, result: Mapping[str, Any] | None = None) -> None:
        self._progress.pop(job.id, None)
        self.database.change(
            "UPDATE jobs SET state = ?, progress = ?, ended = ?, error = ?, result = ? WHERE id = ?",
            *(state, float(state == "done"), time.time(), error, json.dumps(dict(result or {})), job.id),
        )
        self.database.change(
            "DELETE FROM jobs WHERE ended IS NOT NULL AND number <= (SELECT number FROM jobs WHERE ended IS NOT NULL "
            "ORDER BY number DESC LIMIT 1 OFFSET ?)",
            _KEPT,
        )
        shutil.rmtree(self.folder_of(job.id), ignore_errors=True)
        if state != "done":
            self.builder.discard(job)
        self._metrics.jobs_ended.labels(job.kind, state).inc()
        self._tell()
        self._log(job, state)

    def _put_back(self, job: Job) -> None:
        """The server ends; that was no fault of the job."""
        with self._changed:
            self._progress.pop(job.id, None)
            self.database.change(
                "UPDATE jobs SET state = 'queued', spec = ? WHERE id = ?", json.dumps(dict(job.spec)), job.id
            )
        self._log(job, "interrupted")

    # inside

    def _take_up(self) -> None:
        """What was at work when the server ended waits again, in its old place, unless it has ended several servers."""
        for job in self.listed():
            if job.state == "running":
                if job.spec.get("begun", 0) >= _TRIES:
                    self._end(job, "failed", f"The server has died {_TRIES} times while it was at work on this.")
                else:
                    self.database.change("UPDATE jobs SET state = 'queued' WHERE id = ?", job.id)
        left = [job for job in self.listed() if job.at_work]
        known = {job.id for job in left}
        for folder in self.folder.iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)
        self.builder.tidy(left)
        self._tell()

    def _job(self, row: sqlite3.Row, place: int | None) -> Job:
        progress = self._progress.get(row["id"])
        return Job(
            id=row["id"],
            number=row["number"],
            kind=row["kind"],
            target=row["target"],
            user=row["user"],
            state=row["state"],
            spec=json.loads(row["spec"]),
            created=row["created"],
            started=row["started"],
            ended=row["ended"],
            error=row["error"],
            result=json.loads(row["result"] or "{}"),
            progress=progress.share if progress else row["progress"],
            step=progress.step if progress else row["step"],
            eta=progress.eta if progress else None,
            place=place,
        )

    def _count(self, state: State) -> int:
        row = self.database.row("SELECT COUNT(*) AS n FROM jobs WHERE state = ?", state)
        return row["n"] if row else 0

    def _tell(self) -> None:
        for state in STATES:
            self._metrics.jobs.labels(state).set(self._count(state))

    def _log(self, job: Job, state: str) -> None:
        log_request("job", job=job.id, kind=job.kind, target=job.target, user=job.user, state=state)
