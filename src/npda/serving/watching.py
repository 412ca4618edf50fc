"""The outermost layer: every request gets an id, its answer headers, and both a line in the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from npda.serving.errors import Refusal
from npda.serving.logs import REQUEST, log_request, new_id
from npda.serving.metrics import Metrics
from npda.serving.requests.receiving import limited

logger = logging.getLogger(__name__)

_PATIENCE = 60.0  # seconds that a client may take to accept a piece of the answer

# The page brings a policy of its own; nothing else has anything to load.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Watched:
    """Middleware. most: bytes of a request's body; shared: other sites may read answers (with CORS)"""

    def __init__(self, app: ASGIApp, metrics: Metrics, most: int, shared: bool = False) -> None:
        self.app, self.metrics, self.most = app, metrics, most
        self.headers = {**HEADERS, **({"Cross-Origin-Resource-Policy": "cross-origin"} if shared else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        id, start, status = new_id(), time.perf_counter(), 0
        scope.setdefault("state", {})["request_id"] = id
        token = REQUEST.set(id)

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.accept"):
                status = message.get("status", 101)
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = id
                if status != 101:
                    for name, value in self.headers.items():
                        headers.setdefault(name, value)
            async with asyncio.timeout(_PATIENCE):
                await send(message)

        if scope["type"] == "http":
            receive = limited(receive, self.most)
        try:
            with self.metrics.in_flight.track_inprogress():
                await self.app(scope, receive, tell)
        except Refusal as refusal:
            await self._refuse(scope, receive, tell, refusal, status)
        except TimeoutError:
            logger.warning("a client took longer than %g s to accept its answer", _PATIENCE)
        except Exception:
            logger.exception("an unexpected error")
            fault = Refusal(500, f"Something went wrong here; the server's log tells more under {id}.", code="internal")
            await self._refuse(scope, receive, tell, fault, status)
        finally:
            self._note(scope, status, time.perf_counter() - start)
            REQUEST.reset(token)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, refusal: Refusal, status: int) -> None:
        if status:
            return  # too late to say it
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:120]})
        else:
            await JSONResponse(refusal.body(), refusal.status, refusal.headers)(scope, receive, send)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope.get("method", "WS")
        if method not in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WS"):
            method = "other"
        self.metrics.requests.labels(method, route, str(status or 499)).inc()
        self.metrics.seconds.labels("total").observe(seconds)
        log_request("request", method=method, route=route, status=status or 499, seconds=round(seconds, 4))
