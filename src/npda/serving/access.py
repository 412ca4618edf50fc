"""Who may do what: keys with names and rights."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from npda.serving.errors import Refusal
from npda.serving.settings import Key

ANYONE = "anyone"  # the name of those who need no key


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
    if not caller.edits:
        raise Refusal(
            403,
            f"The key {caller.name!r} may translate, not change stores or lists of terms; use one that may.",
            code="insufficient_permissions",
        )
    return caller


Translates = Annotated[Caller, Depends(translating)]  # parameters of routes
Edits = Annotated[Caller, Depends(editing)]
