"""A store searched by actors: each holds a part of it, and one batched call a step asks all of them at once.

The neighbours are those of the store on one machine: see ``npda.cluster.part``. A part may have replicas on other
machines. Ray starts a part that was lost again, from disk; meanwhile a replica answers, or one waits, or, where that is
allowed, the part is left out and the translation says so.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from npda.cluster.connection import NAMESPACE, check_versions, connected, sentence, versions
from npda.cluster.part import Found, PartSearcher, merged, ranges
from npda.datastore.index.search import Searcher, missing
from npda.datastore.store import Datastore
from npda.io.errors import InputError

logger = logging.getLogger(__name__)

_INLINE = 90_000  # bytes of queries that travel within a call; more go by way of the object store, once for all parts
_LATE = 1.0  # seconds without an answer after which a replica is asked too
_LEFT_OUT = 3.0  # seconds after which a part may be left out
_PATIENCE = 300.0  # seconds to wait for a part that must not be
_PAUSE = 0.2  # seconds between two calls to parts that are being started again


@dataclass(frozen=True)
class SearchOnCluster:
    """parts: that a store is cut into, by default one for each machine; replicas: of each; partial: a part that does
    not answer may be left out; cpus: of an actor; shared: what the names of actors begin with that several processes
    use, and that outlive them
    """

    parts: int | None = None
    replicas: int = 1
    partial: bool = False
    cpus: float = 1.0
    shared: str = ""

    def __post_init__(self) -> None:
        if (self.parts is not None and self.parts < 1) or self.replicas < 1:
            raise ValueError("a store needs at least one part, and a part one replica")


class Part:
    """The actor."""

    def __init__(self, store: Path, digest: str, first: int, end: int, threads: int, wanted: dict[str, str]) -> None:
        self._given = store, digest, first, end, threads, wanted
        self._searcher: PartSearcher | None = None

    def ready(self) -> None:
        """Open the part, once."""
        if self._searcher is not None:
            return
        path, digest, first, end, threads, wanted = self._given
        import torch

        torch.set_num_threads(threads)
        check_versions(wanted, versions(), socket.gethostname())
        if not path.is_dir():
            raise InputError(
                f"The machine {socket.gethostname()} does not see {path}: use a directory that all machines share."
            )
        store = Datastore.open(path)
        if store.digest != digest:
            raise InputError(f"{path} has changed since it was opened: open it again.")
        self._searcher = PartSearcher(store, first, end, threads)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.ready()
        assert self._searcher is not None
        found = self._searcher.search(queries, k)
        return found.rough, found.ids, found.true


class Parts:
    """Implements ``Searcher``: finds keys near other keys in the parts of a store.

    left_out: searches so far that had to do without a part
    """

    def __init__(self, store: Datastore, options: SearchOnCluster = SearchOnCluster()) -> None:
        self.left_out = 0
        self._store = store
        self._rerank = store.info.index.rerank
        self._options = options
        self._turn: dict[int, int] = {}  # which replica of a part is asked

    @cached_property
    def _actors(self) -> list[list[Any]]:
        return _actors(self._store, self._options)

    def ready(self) -> None:
        """Wait until every actor has opened its part."""
        import ray
        from ray.exceptions import GetTimeoutError, RayTaskError

        # Those that are being started again are waited for.
        opening = [replica.ready.options(max_task_retries=-1) for part in self._actors for replica in part]
        try:
            ray.get([ready.remote() for ready in opening], timeout=_PATIENCE)
        except GetTimeoutError:
            self.close()
            raise InputError(
                f"The cluster has found no room for {len(opening)} parts of {self._store.path} within "
                f"{_PATIENCE / 60:.0f} minutes: ask for fewer, or wait until it is less busy."
            ) from None
        except RayTaskError as error:
            self.close()
            raise sentence(error, "of a part") or error from None

    def close(self) -> None:
        """End the actors."""
        import ray

        for part in self.__dict__.get("_actors", ()):  # those that were ever asked for
            for replica in part:
                ray.kill(replica)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """queries: [n, dim] float32 → distances [n, k] float32 rising, ids [n, k] int64; +inf, −1 where missing"""
        import ray

        sent = ray.put(queries) if queries.nbytes > _INLINE else queries
        asked = []
        for part, replicas in enumerate(self._actors):
            turn = self._turn.get(part, part) % len(replicas)
            asked.append((part, turn, replicas[turn].search.remote(sent, k)))
        answers = [self._answer(part, turn, ref, sent, k) for part, turn, ref in asked]
        found = [answer for answer in answers if answer is not None]
        if len(found) < len(answers):
            self.left_out += 1
        if not found:
            return missing(len(queries), k)
        return merged(found, k, self._rerank)

    def _answer(self, part: int, turn: int, first: Any, queries: Any, k: int) -> Found | None:
        """Of a part, whichever replica gives it; None where it is left out."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        started, replicas = time.monotonic(), self._actors[part]
        asked, last = {first: turn}, turn
        while True:
            ready, _ = ray.wait(list(asked), timeout=_LATE) if asked else ([], [])
            for ref in ready:
                replica = asked.pop(ref)
                try:
                    found = Found(*ray.get(ref))
                    self._turn[part] = replica
                    return found
                except RayTaskError as error:
                    raise sentence(error, "of a part") or error from None
                except RayActorError:
                    logger.info("part %d, replica %d of %s does not answer", part, replica, self._store.path)
            waited = time.monotonic() - started
            if self._options.partial and waited > _LEFT_OUT:
                return None
            if waited > _PATIENCE:
                raise InputError(
                    f"A part of {self._store.path} has not answered for {_PATIENCE / 60:.0f} minutes: check "
                    "the cluster, or add --partial to leave that part out."
                )
            last = (last + 1) % len(replicas)
            if last not in asked.values():
                if not asked and waited > _PAUSE:
                    time.sleep(_PAUSE)
                asked[replicas[last].search.remote(queries, k)] = last


class SpreadStore(Datastore):
    """A store whose keys are searched by the cluster; its texts and values are read here."""

    def __init__(self, store: Datastore, parts: Parts) -> None:
        super().__init__(store.path, store.info)
        self.parts, self._opened = parts, False

    @property
    def left_out(self) -> int:
        """Searches so far that had to do without a part."""
        return self.parts.left_out

    def searcher(self, nprobe: int | None = None, rerank: int | None = None, threads: int | None = None) -> Searcher:
        return self.parts

    def ready(self) -> None:
        super().ready()
        if not self._opened:  # a part that is lost later holds up only those who search it
            self.parts.ready()
            self._opened = True


@contextmanager
def spread(stores: Sequence[Datastore], address: str, options: SearchOnCluster) -> Iterator[list[Datastore]]:
    """The same stores, held by a cluster for as long as this lasts."""
    with connected(address):
        found: list[SpreadStore] = []
        try:
            for store in stores:
                found.append(SpreadStore(store, Parts(store, options)))
            for store in found:
                store.ready()
            yield list(found)
        finally:
            for store in found:
                store.parts.close()


def machines(cpus: float) -> list[str]:
    """The machines of the cluster that have so many processors."""
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    found = [node["NodeID"] for node in alive if node["Resources"].get("CPU", 0) >= cpus]
    if not found:
        raise InputError("No machine of the cluster has a processor for a part of the store.")
    return found


def shared_name(store: Datastore, options: SearchOnCluster) -> str:
    """What the names of a store's shared actors begin with."""
    return f"{options.shared} {store.digest[:16]}"


def _actors(store: Datastore, options: SearchOnCluster) -> list[list[Any]]:
    """Of every part its replicas, no two on one machine if there are enough."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = machines(options.cpus)
    threads, wanted = max(1, int(options.cpus)), versions()
    cuts = ranges(store.entries, options.parts or len(nodes))
    actors = []
    for part, (first, end) in enumerate(cuts):
        replicas = []
        for replica in range(options.replicas):
            node = NodeAffinitySchedulingStrategy(nodes[(part + replica) % len(nodes)], soft=True)
            placed: dict[str, Any] = {"num_cpus": options.cpus, "max_restarts": -1, "scheduling_strategy": node}
            if options.shared:
                name = f"{shared_name(store, options)} {part + 1} of {len(cuts)}, {replica}"
                placed |= {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
            make: Any = ray.remote(Part).options(**placed)
            replicas.append(make.remote(store.path.absolute(), store.digest, first, end, threads, wanted))
        actors.append(replicas)
    return actors
