"""Who may do what: keys with names and rights, and which pages of a browser may ask."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from npda.io.errors import InputError
from npda.serving.errors import Refusal
from npda.serving.settings import Key, Settings

ANYONE = "anyone"  # the name of those who need no key
_SAFE = ("GET", "HEAD", "OPTIONS")  # methods that change nothing


@dataclass(frozen=True)
class Caller:
    """Who sends a request: the name of the key, and whether it may change stores and lists of terms."""

    name: str
    edits: bool


class Access:
    """The keys of a server. Without any, everyone who reaches it may do everything."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = tuple(keys)

    def caller(self, secret: str | None) -> Caller:
        """The holder of a key. Every key is compared in constant time, so that the time taken tells nothing."""
        if not self.keys:
            return Caller(ANYONE, True)
        given, found = (secret or "").encode(), None
        for key in self.keys:
            if hmac.compare_digest(key.secret.encode(), given):
                found = key
        if found is None:
            said = "This key is not known" if secret else "A key is needed"
            raise Refusal(
                401,
                f"{said}: send `Authorization: Bearer KEY` with a key that this server was started with.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return Caller(found.name, found.edits)


def bearer(connection: HTTPConnection) -> str | None:
    """The key in the Authorization header, if there is one."""
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


def translating(connection: HTTPConnection) -> Caller:
    """Anyone with a key."""
    return connection.app.state.npda.access.caller(bearer(connection))


def editing(connection: HTTPConnection) -> Caller:
    """Those whose key may change stores and lists of terms."""
    caller = translating(connection)
    if connection.app.state.npda.settings.reads_only:
        raise Refusal(
            403,
            "This server only reads: change its folder of stores, and send terms with each request.",
            code="read_only",
        )
    if not caller.edits:
        raise Refusal(
            403,
            f"The key {caller.name!r} may translate, not change stores or lists of terms; use one that may.",
            code="insufficient_permissions",
        )
    return caller


# For the OpenAPI document alone: the two functions above ask for keys where they are needed.
_documented = HTTPBearer(auto_error=False, scheme_name="key", description="A key that the server was started with.")


def _translates(connection: HTTPConnection, _: object = Depends(_documented)) -> Caller:
    return translating(connection)


def _edits(connection: HTTPConnection, _: object = Depends(_documented)) -> Caller:
    return editing(connection)


Translates = Annotated[Caller, Depends(_translates)]  # parameters of routes
Edits = Annotated[Caller, Depends(_edits)]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def check_binding(settings: Settings) -> None:
    """Refuse to let other machines in without a key, unless that is wanted."""
    if not (settings.keys or settings.open or is_loopback(settings.host)):
        raise InputError(
            f"Listening on {settings.host} lets other machines in, and there is no key: give one with --api-key "
            "NAME:SECRET or in NPDA_API_KEY, or add --open if everyone may use and change this server."
        )


class Guarded:
    """Middleware: keeps pages of other sites from using a visitor's browser to reach this server.

    Without keys, a server on loopback answers only to its own names: another name that leads here is that of a page
    whose address was pointed here afterwards (DNS rebinding). Whatever may change something, and WebSockets, must come
    from the server's own page, from a site that ``origins`` lists, or from something that is no browser.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.origins = frozenset(origin.rstrip("/").lower() for origin in settings.origins)
        self.names = None
        if not settings.keys and not settings.open:
            self.names = {_host(urlsplit(origin).netloc) for origin in self.origins} | {settings.host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            self.check(scope["type"] == "websocket" or scope["method"] not in _SAFE, Headers(scope=scope))
        await self.app(scope, receive, send)

    def check(self, changes: bool, headers: Headers) -> None:
        host = headers.get("host", "")
        name = _host(host)
        if self.names is not None and not is_loopback(name) and name not in self.names:
            raise Refusal(
                421,
                f"This server answers to localhost, not to {name[:100]!r}: without keys it is for this machine alone.",
                code="wrong_host",
            )
        origin = headers.get("origin", "").lower()
        if not changes or origin in self.origins:
            return
        site = headers.get("sec-fetch-site")
        if site:  # which no script can forge
            foreign = site not in ("same-origin", "none")
        else:
            foreign = bool(origin) and urlsplit(origin).netloc != host.lower()
        if foreign:
            raise Refusal(
                403,
                "A page of another site may not use this server; its operator can allow that with --origin.",
                code="cross_site",
            )


def _host(netloc: str) -> str:
    """localhost:8765 → localhost; [::1]:8765 → [::1]"""
    name, bracket, _ = netloc.lower().partition("]")
    return name + bracket if bracket else netloc.lower().partition(":")[0]
