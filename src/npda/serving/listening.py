"""The process that listens: connections that cost nothing, and an end that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import threading
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS

from npda.io.errors import InputError

HEAD = 20.0  # seconds in which a request has to begin after a connection, or after the answer before
_LIVE = 30.0  # seconds that live captions may take to finish
_CONNECTIONS = 16_384  # open files that are asked for


class PatientProtocol(H11Protocol):
    """Closes connections on which no request begins: slow or silent clients hold nothing for long."""

    head = HEAD
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waits is not None:
            self._waits.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
        self._waits = self.loop.call_later(self.head, self._overdue)

    def _overdue(self) -> None:
        """Unless a request is being answered, or this has become a WebSocket."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy and not self.transport.is_closing() and self.transport.get_protocol() is self:
            self.transport.abort()


class Server(uvicorn.Server):
    """As uvicorn's, except that a process asked to end has ended well: exit code 0.

    The first SIGTERM or SIGINT closes the door and finishes what was accepted; a second SIGINT ends at once.
    started_on: told the port once it listens
    """

    started_on: Callable[[int], object] = staticmethod(lambda port: None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.started_on(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nobody new comes in; live captions finish before uvicorn would cut their connections off."""
        for listener in self.servers:
            listener.close()
        state = getattr(getattr(self.config.app, "state", None), "npda", None)
        if state is not None and not self.force_exit:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LIVE):
                    await state.live.drain()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def server(app: Any, host: str, port: int, protocol: type[H11Protocol] = PatientProtocol) -> Server:
    """Not yet listening."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=protocol,
        loop="asyncio",  # not whatever else is installed
        ws="websockets-sansio",
        ws_max_size=1 << 20,
        ws_per_message_deflate=False,  # audio does not get smaller by it
        ws_ping_timeout=None,  # a client that is held back answers late; one that is gone sends no audio
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        backlog=2048,
    )
    return Server(config)


def allow_connections() -> None:
    """Raise the limit of open files as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(_CONNECTIONS, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(app: Any, host: str, port: int, started_on: Callable[[int], object]) -> None:
    """Serve until a signal ends it. started_on: told the port once it listens"""
    allow_connections()
    listening = bound(host, port)
    running = server(app, host, port)
    running.started_on = started_on
    running.run(sockets=[listening])


def bound(host: str, port: int) -> socket.socket:
    """A socket on an address, or a sentence."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        raise InputError(
            f"Nothing can listen on {host}, port {port} ({error.strerror}): choose another --port."
        ) from None
    return made
