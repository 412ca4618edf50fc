"""Workers on the machines of a Ray cluster: each holds the model, and makes shards and parts of an index.

They write into the folder that all machines see; what travels through Ray are sentences on the way there and a line
about the shard on the way back, never keys. Whatever a lost worker was at is done again by another one, and a worker
that Ray has started again joins in. A driver that was killed finds what is finished by its records.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from npda.cluster.connection import check_versions, connected, sentence, versions
from npda.datastore.workers import Made, Task, Workers
from npda.io.errors import InputError
from npda.models.backbone import Backbone
from npda.models.devices import Precision

logger = logging.getLogger(__name__)

_AHEAD = 3  # tasks per worker that are read before the first of them is handed over
_LIVES = 4  # workers that may be lost to one task
_PATIENCE = 300.0  # seconds without a single worker


@dataclass(frozen=True)
class ClusterOptions:
    """address: HOST:PORT, or auto; cpus, gpus: of a worker, by default all processors of a machine, or one GPU, where
    there is one; a fraction of a GPU lets several workers share it; device, precision: of their models
    """

    address: str
    cpus: int | None = None
    gpus: float | None = None
    device: str = "auto"
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        if (self.cpus is not None and self.cpus < 1) or (self.gpus is not None and self.gpus <= 0):
            raise ValueError("a worker needs at least one processor, or more than nothing of a GPU")


@dataclass(frozen=True)
class Place:
    """Where workers find the model. digest: that it must have; versions: that must be installed; threads: that compute
    together, as many as here, since sums of products round differently in other parts; folder: that relative paths of
    tasks start from
    """

    model: Path
    source_language: str | None
    device: str
    precision: Precision
    digest: str
    versions: dict[str, str]
    threads: int
    folder: str


class Worker:
    """The actor."""

    def __init__(self, place: Place) -> None:
        torch.set_num_threads(place.threads)
        with suppress(OSError):  # a machine without this folder may still see those of the store
            os.chdir(place.folder)
        self._place = place
        self._backbone: Any = None

    def node(self) -> str:
        return socket.gethostname()

    def ready(self) -> None:
        """Load the model, once."""
        if self._backbone is not None:
            return
        from npda.models import load_backbone

        place = self._place
        check_versions(place.versions, versions(), self.node())
        if not (place.model / "config.json").is_file():
            raise InputError(
                f"The machine {self.node()} does not see {place.model}: use a directory that all machines share."
            )
        backbone = load_backbone(place.model, place.source_language, place.device, place.precision)
        if backbone.model_digest() != place.digest:
            raise InputError(f"The machine {self.node()} has another model in {place.model}: copy it there again.")
        self._backbone = backbone

    def sees(self, path: Path, content: str) -> bool:
        return path.is_file() and path.read_text(encoding="utf-8") == content

    def do(self, work: Callable[[Backbone, Any], Any], task: Any) -> Any:
        self.ready()  # Ray may have started this worker again
        return work(self._backbone, task)


@dataclass(eq=False)
class _Hand:
    """A worker from here. node: the machine it was on last"""

    actor: Any
    node: str = "of a worker"


@dataclass(eq=False)
class _Job:
    number: int
    task: Any
    lost: int = 0  # workers


class Crew:
    """Implements ``Workers`` with actors of the cluster that this process is connected to."""

    def __init__(self, options: ClusterOptions, place: Place) -> None:
        self._hands = [_Hand(actor) for actor in _actors(options, place)]
        self._get_ready()

    def __len__(self) -> int:
        return len(self._hands)

    def close(self) -> None:
        import ray

        for hand in self._hands:
            ray.kill(hand.actor)

    def check(self, folder: Path) -> None:
        import ray

        token = secrets.token_hex(8)
        path = folder.absolute() / f".seen-{token}"
        path.write_text(token, encoding="utf-8")
        try:
            for hand, seen in [(hand, _coming_back(hand.actor.sees, path, token)) for hand in self._hands]:
                if not ray.get(seen, timeout=_PATIENCE):
                    raise InputError(
                        f"The machine {hand.node} does not see {folder}: use a directory that all machines share."
                    )
        finally:
            path.unlink()

    def map(self, do: Callable[[Backbone, Task], Made], tasks: Iterable[Task]) -> Iterator[tuple[Task, Made]]:
        """In their order; a few are under way at once. See ``Workers``."""
        import ray

        jobs = (_Job(number, task) for number, task in enumerate(tasks))
        waiting: deque[_Job] = deque()
        running: dict[Any, tuple[_Hand, _Job | None]] = {}  # a job, or a worker that is coming back
        done: dict[int, Made] = {}
        idle = list(self._hands)
        tasks_of: dict[int, Task] = {}
        seen = time.monotonic()  # a worker at work
        work = ray.put(do)
        for following in itertools.count():
            while following not in done:
                held = len(tasks_of)
                for job in itertools.islice(jobs, max(0, _AHEAD * len(self._hands) - held)):
                    tasks_of[job.number] = job.task
                    waiting.append(job)
                if following not in tasks_of:
                    return
                while idle and waiting:
                    hand, job = idle.pop(), waiting.popleft()
                    running[hand.actor.do.remote(work, job.task)] = hand, job
                ended = next(iter(ray.wait(list(running), timeout=1.0)[0]), None)
                if ended is None:
                    self._still_there(running, seen)
                    continue
                hand, job = running.pop(ended)
                if job is None:
                    if self._is_back(hand, ended, running):
                        idle.append(hand)
                        seen = time.monotonic()
                elif self._result(hand, job, ended, done, waiting, running):
                    idle.append(hand)
                    seen = time.monotonic()
            yield tasks_of.pop(following), done.pop(following)

    def _result(
        self, hand: _Hand, job: _Job, ended: Any, done: dict[int, Any], waiting: deque[_Job], running: dict[Any, Any]
    ) -> bool:
        """Take in what became of a job. → whether its worker is free for another one"""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        try:
            done[job.number] = ray.get(ended)
            return True
        except RayTaskError as error:
            raise sentence(error, hand.node) or error from None
        except RayActorError as error:
            job.lost += 1
            logger.warning("A worker on %s was lost; its work starts again.", hand.node)
            if job.lost == _LIVES:
                raise InputError(
                    f"Chunk {job.number} has ended {_LIVES} workers, the last on {hand.node}: do they have enough "
                    f"memory? ({_line(error)})"
                ) from None
            waiting.appendleft(job)
            running[_coming_back(hand.actor.ready)] = hand, None
            return False

    def _is_back(self, hand: _Hand, ended: Any, running: dict[Any, Any]) -> bool:
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        try:
            ray.get(ended)
            return True
        except RayTaskError as error:
            raise sentence(error, hand.node) or error from None
        except RayActorError:
            if len(self._hands) == 1:
                raise InputError("The cluster has no worker left: start again when there are workers.") from None
            self._hands.remove(hand)  # for good
            return False

    @staticmethod
    def _still_there(running: dict[Any, tuple[_Hand, _Job | None]], seen: float) -> None:
        at_work = any(job is not None for _, job in running.values())
        if not at_work and time.monotonic() - seen > _PATIENCE:
            raise InputError(
                f"No worker of the cluster has come back for {_PATIENCE / 60:.0f} minutes: start again when there are "
                "some; what is finished is kept."
            )

    def _get_ready(self) -> None:
        """Load the model everywhere, and see to it that it is the same. Do without workers there is no room for now."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        refs = {hand.actor.ready.remote(): hand for hand in self._hands}
        ready, _ = ray.wait(list(refs), num_returns=len(refs), timeout=_PATIENCE)
        for ref, hand in refs.items():
            if ref not in ready:
                ray.kill(hand.actor)
                self._hands.remove(hand)
                continue
            try:
                hand.node = ray.get(hand.actor.node.remote())
                ray.get(ref)
            except RayTaskError as error:
                self.close()
                raise sentence(error, hand.node) or error from None
            except RayActorError as error:
                self.close()
                raise InputError(f"A worker of the cluster cannot start: {_line(error)}") from None
        if not self._hands:
            raise InputError("All machines of the cluster are busy: wait, or ask for less with --worker-cpus.")


@contextmanager
def crew(options: ClusterOptions, model: Path, source_language: str | None, backbone: Backbone) -> Iterator[Workers]:
    """Workers with the model of a directory, which is also open here, for as long as this lasts."""
    with connected(options.address):
        threads = options.cpus or torch.get_num_threads()
        of_all = options.device, options.precision, backbone.model_digest(), versions(), threads, os.getcwd()
        found = Crew(options, Place(model.absolute(), source_language, *of_all))
        try:
            yield found
        finally:
            found.close()


def _coming_back(method: Any, *given: Any) -> Any:
    """A call that is answered once Ray has started a lost worker again, here or elsewhere."""
    return method.options(max_task_retries=-1).remote(*given)


def _actors(options: ClusterOptions, place: Place) -> list[Any]:
    """As many as the machines of the cluster have room for."""
    import ray

    made = []
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        cpus, gpus = int(node["Resources"].get("CPU", 0)), node["Resources"].get("GPU", 0)
        share = options.gpus or (1.0 if gpus else 0.0)
        each = options.cpus or (max(1, int(cpus * share / gpus)) if share and gpus else cpus)
        count = int(min(gpus / share if share else cpus, cpus / each)) if each else 0
        for _ in range(count):
            made.append(
                ray.remote(Worker)
                .options(num_cpus=each, num_gpus=share, max_restarts=-1, scheduling_strategy="SPREAD")
                .remote(place)
            )
    if not made:
        raise InputError("No machine of the cluster has room for a worker: ask for fewer processors or GPUs.")
    return made


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
