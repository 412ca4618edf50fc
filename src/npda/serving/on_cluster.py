"""`npda serve --ray`: the same server on several machines, as a deployment of Ray Serve.

Every replica is a server with the model in memory and a data folder that goes with it. The parts of the stores are
actors that all replicas ask directly: a handle of Ray Serve would cost its overhead thirty times a sentence. Replicas
only read; a store that is replaced in its folder is replaced in each of them with the next request, and the parts of
the old one end when no request can be reading them any more.
"""

from __future__ import annotations

import signal
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npda.cluster.connection import NAMESPACE, check_versions, connected, sentence, versions
from npda.cluster.search import Parts, SearchOnCluster, SpreadStore, machines, shared_name
from npda.datastore.format import StoreInfo, read_info
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.serving.listening import bound
from npda.serving.settings import Settings
from npda.serving.stores.library import stores_in
from npda.serving.stores.versions import Opening

if TYPE_CHECKING:
    from fastapi import FastAPI

NAME = "npda"  # of the application, and in the names of its parts

_LOOK = 15.0  # seconds between two looks for parts of stores that were replaced
_MARGIN = 60.0  # seconds that they stay longer than a request may take


@dataclass(frozen=True)
class OnCluster:
    """search: of the stores; replicas: at least; most: replicas, no more than that by default; cpus: of a replica"""

    address: str
    search: SearchOnCluster
    replicas: int = 1
    most: int | None = None
    cpus: float = 1.0

    def __post_init__(self) -> None:
        if self.most is not None and self.most < self.replicas:
            raise ValueError("there cannot be fewer replicas at most than at least")


def serve_on(options: OnCluster, settings: Settings, started_on: Callable[[int], object]) -> None:
    """Serve until a signal ends it. started_on: told the port once all replicas are ready"""
    with connected(options.address), _until_told() as stop:
        from ray import serve

        settings = _absolute(replace(settings, reads_only=True))
        if NAME not in serve.status().applications:  # whose door would be open
            bound(settings.host, settings.port).close()
        check_machines(_paths(settings), options.cpus)
        search = options.search
        search = replace(search, shared=NAME, parts=search.parts or len(machines(search.cpus)))
        parts = SharedParts(settings.stores, search, settings.timeout + _MARGIN)
        try:
            parts.open()
            _check_room(options)
            serve.start(http_options={"host": settings.host, "port": settings.port})
            serve.run(deployment(settings, replace(options, search=search)), name=NAME)
            started_on(settings.port)
            while not stop.wait(_LOOK):
                parts.end_old()
        except (RuntimeError, TimeoutError) as error:
            raise InputError(f"The cluster cannot serve: {_last_line(error)}") from None
        finally:
            if NAME in serve.status().applications:
                serve.delete(NAME)  # what was accepted is finished
            end_parts(_names(f"{NAME} "))
            if not serve.status().applications:
                serve.shutdown()


def deployment(settings: Settings, options: OnCluster) -> Any:
    """What Ray Serve runs: replicas of the server."""
    from ray import serve

    most = options.replicas if options.most is None else options.most
    scaled: dict[str, Any] = {"num_replicas": options.replicas}
    if most > options.replicas:  # by how many requests wait or are answered
        bounds = {"min_replicas": options.replicas, "max_replicas": most}
        scaled = {"autoscaling_config": {**bounds, "target_ongoing_requests": settings.batch}}
    served = serve.deployment(
        name="translators",
        max_ongoing_requests=4 * settings.queue,  # the server has a queue of its own, which says when to come back
        graceful_shutdown_timeout_s=settings.timeout,
        ray_actor_options={"num_cpus": options.cpus},
        logging_config={"enable_access_log": False},
        **scaled,
    )
    return served(serve.ingress(_builder(settings, options.search))()).bind()


def _builder(settings: Settings, search: SearchOnCluster) -> Callable[[], FastAPI]:
    """What makes a server where a replica is started."""

    def replica() -> FastAPI:
        from npda.serving.app import create_app
        from npda.serving.logs import write_json_logs

        write_json_logs()
        home = tempfile.TemporaryDirectory(prefix="npda-", ignore_cleanup_errors=True)
        app = create_app(replace(settings, data=Path(home.name)), opening=opening(search))
        alone = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            with home:
                async with alone(app):
                    await app.state.npda.engine.longest(next(iter(settings.models)))  # loaded before it is asked
                    yield

        app.router.lifespan_context = lifespan
        return app

    return replica


def opening(search: SearchOnCluster) -> Opening:
    """Stores whose parts all replicas share."""

    def spread(path: Path, info: StoreInfo) -> Datastore:
        store = Datastore(path, info)
        return SpreadStore(store, Parts(store, search))

    return spread


class SharedParts:
    """The parts of a folder's stores, as seen from the process that serves it. patience: seconds for old ones"""

    def __init__(self, stores: Path | None, search: SearchOnCluster, patience: float) -> None:
        self._stores, self._search, self._patience = stores, search, patience
        self._old: dict[str, float] = {}  # since when

    def open(self) -> None:
        """Before anybody asks for them."""
        for store in self._current():
            opening(self._search)(store.path, store.info).ready()

    def end_old(self) -> None:
        """End the parts of stores that were replaced, once nobody can be reading them."""
        current = tuple(shared_name(store, self._search) for store in self._current())
        old = [name for name in _names(f"{NAME} ") if not name.startswith(current)]
        now = time.monotonic()
        self._old = {name: self._old.get(name, now) for name in old}
        end_parts(name for name, since in self._old.items() if now - since > self._patience)

    def _current(self) -> list[Datastore]:
        found = []
        for path in stores_in(self._stores) if self._stores is not None else ():
            with suppress(InputError, OSError):  # it is being replaced
                found.append(Datastore(path.resolve(), read_info(path)))
        return found


def _names(begin: str) -> list[str]:
    from ray.util import list_named_actors

    return [name for name in list_named_actors() if name.startswith(begin)]


def end_parts(names: Iterable[str]) -> None:
    import ray

    for name in names:
        with suppress(ValueError):  # it has ended
            ray.kill(ray.get_actor(name, namespace=NAMESPACE))


def check_machines(paths: Iterable[Path], cpus: float) -> None:
    """Whether each machine has the same versions, and sees everything."""
    import ray
    from ray.exceptions import RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look: Any = ray.remote(num_cpus=0)(_look)
    wanted = [path.absolute() for path in paths]
    for node in machines(cpus):
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        try:
            ray.get(look.options(scheduling_strategy=place).remote(wanted, versions()))
        except RayTaskError as error:
            raise sentence(error, "of a replica") or error from None


def _look(paths: Iterable[Path], wanted: dict[str, str]) -> None:
    name = socket.gethostname()
    check_versions(wanted, versions(), name)
    for path in paths:
        if not path.exists():
            raise InputError(f"The machine {name} does not see {path}: use a directory that all machines share.")


def _check_room(options: OnCluster) -> None:
    """Ray Serve would wait for ever."""
    import ray
    from ray import serve

    free, needed = ray.available_resources().get("CPU", 0.0), options.replicas * options.cpus
    if NAME not in serve.status().applications and free < needed:
        raise InputError(
            f"The cluster has {free:g} processors left, and {options.replicas} replicas need {needed:g}: ask for fewer."
        )


def _absolute(settings: Settings) -> Settings:
    """As other processes find it; the names of models on a hub stay."""
    models = {name: path.absolute() if path.exists() else path for name, path in settings.models.items()}
    stores, examples = (path and path.absolute() for path in (settings.stores, settings.examples))
    return replace(settings, models=models, stores=stores, examples=examples)


def _paths(settings: Settings) -> list[Path]:
    found = [*settings.models.values(), settings.stores, settings.examples]
    return [path for path in found if path is not None and path.is_absolute()]


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    """Set by SIGTERM or Ctrl+C."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]
