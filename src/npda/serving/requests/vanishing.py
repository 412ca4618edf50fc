"""Work for a client ends when the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from npda.serving.errors import Refusal

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do something for as long as the client waits for it; its body has been received."""
    task = asyncio.ensure_future(work)
    watch = asyncio.create_task(_gone(request.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refusal(499, "The client has gone.", code="gone")  # which nobody reads
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()
        # Whatever the work holds is given back before this ends.
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class HoldingResponse(StreamingResponse):
    """A stream that holds something until it has been sent or the client has gone, even if it never began."""

    def hold(self, stack: AsyncExitStack) -> HoldingResponse:
        self._held = stack
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with suppress(RuntimeError):  # an iterator that was never begun, or is being closed already
                await self.body_iterator.aclose()  # type: ignore[union-attr]
            await self._held.aclose()
