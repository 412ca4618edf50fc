"""Stages of a recipe on the machines of a cluster, each in a process of its own; their folders are shared."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npda.cluster.connection import check_versions, connected, original, versions
from npda.io.errors import InputError
from npda.io.locks import Lock
from npda.stages.plan import Step
from npda.stages.run import Starting
from npda.stages.stage_process import perform

_ATTEMPTS = 3  # for a stage whose machine is lost


class RemoteStage:
    """A stage at work on some machine, as ``npda.stages.stage_process.Child`` is on this one.

    If its machine is lost, it goes on elsewhere from what it has written.
    """

    def __init__(self, step: Step, needs: Mapping[str, Path], resumed: bool, lock: Lock, cpus: int) -> None:
        self.step, self.resumed = step, resumed
        self._needs, self._lock, self._cpus = dict(needs), lock, cpus
        self._start = time.monotonic()
        self._reason: str | None = None
        self._attempts = 0
        step.directory.parent.mkdir(parents=True, exist_ok=True)  # the others are to see it
        self._submit(resumed)

    def is_alive(self) -> bool:
        import ray
        from ray.exceptions import RayError, RayTaskError

        if not ray.wait([self._work], timeout=0)[0]:
            return True
        try:
            self._reason = ray.get(self._work)
        except RayTaskError as error:
            cause = original(error)
            self._reason = str(cause) if isinstance(cause, InputError) else f"{type(cause).__name__}: {cause}"
        except RayError as error:
            if self._attempts < _ATTEMPTS:
                self._submit(resumed=True)
                return True
            self._reason = f"its machine was lost {_ATTEMPTS} times ({type(error).__name__}); was there enough memory?"
        return False

    def result(self) -> tuple[str, float]:
        """Of a stage that has ended: what went wrong in a line, or nothing; seconds."""
        self._lock.release()
        return self._reason or "", time.monotonic() - self._start

    def end(self) -> None:
        """At once: what it has written so far is found again."""
        import ray

        ray.cancel(self._work, force=True)
        self._lock.release()

    def _submit(self, resumed: bool) -> None:
        import ray

        self._attempts += 1
        # What a training leaves in memory goes with its process.
        make: Any = ray.remote(num_cpus=self._cpus, max_retries=0, max_calls=1)(_perform)
        self._work = make.remote(self.step, self._needs, resumed, versions())


def _perform(step: Step, needs: Mapping[str, Path], resumed: bool, wanted: dict[str, str]) -> str:
    import socket

    check_versions(wanted, versions(), socket.gethostname())
    if not step.directory.parent.is_dir():
        raise InputError(
            f"The machine {socket.gethostname()} does not see {step.directory.parent}: use a directory that all "
            "machines share."
        )
    return perform(step, needs, resumed)


@contextmanager
def stages_on(address: str, cpus: int) -> Iterator[tuple[Starting, int]]:
    """How to start stages on a cluster, and how many can run at once. cpus: of a stage"""
    with connected(address):
        import ray

        room = [int(node["Resources"].get("CPU", 0)) // cpus for node in ray.nodes() if node["Alive"]]
        if not sum(room):
            raise InputError(f"No machine of the cluster has {cpus} processors for a stage: ask for fewer.")

        def start(step: Step, needs: Mapping[str, Path], resumed: bool, lock: Lock) -> RemoteStage:
            return RemoteStage(step, needs, resumed, lock, cpus)

        yield start, sum(room)
