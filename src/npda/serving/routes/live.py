"""Live captions: audio in and events out over one WebSocket."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import numpy as np
from fastapi import APIRouter, WebSocket
from starlette.responses import JSONResponse

from npda.audio import SAMPLE_RATE
from npda.segmentation import Pauses, best_detector
from npda.serving.access import Caller, bearer
from npda.serving.captions.conversation import POLICY, Conversation, Limits, Opened
from npda.serving.captions.live import Captions, Final
from npda.serving.errors import Refusal
from npda.serving.logs import log_request
from npda.serving.requests.asking import read_request
from npda.serving.requests.receiving import Form
from npda.serving.state import State, state_of
from npda.translation import Translation
from npda.writers import Segment

router = APIRouter(tags=["Audio"])

KEY = "npda.key."  # the subprotocol in which pages send their key, as browsers let them set no headers
RATES = (8_000, 96_000)

_PARAMETERS = ("model", "language", "target_language", "stores", "terms", "k", "lambda", "sample_rate")
_MARGIN = 0.5  # seconds of what the model takes that stay free, for silence at the end


@router.websocket("/v1/audio/live")
async def live(socket: WebSocket) -> None:
    """PCM16 in, JSON events out: ready, partial, final, overload, error, done."""
    state = state_of(socket)
    try:
        caller, protocol = admitted(state, socket)
        state.live.check(state.settings.live)
    except Refusal as refusal:
        state.metrics.refused.labels(refusal.code or str(refusal.status)).inc()
        await _denied(socket, refusal)
        return
    opener = _Opener(state, socket, caller)
    limits = Limits(seconds=state.settings.max_seconds)
    conversation = Conversation(socket, opener, limits, lambda: state.engine.waiting >= state.settings.batch)
    with state.live.running(conversation), state.metrics.live.track_inprogress():
        try:
            await socket.accept(subprotocol=protocol)
            await conversation.run()
        finally:
            state.metrics.audio.labels(opener.model).inc(conversation.seconds)
            log_request("live", model=opener.model, user=caller.name, audio=round(conversation.seconds, 2))


def admitted(state: State, socket: WebSocket) -> tuple[Caller, str | None]:
    """Whose key it is, and the subprotocol to answer with: browsers hang up if none of those they offer is taken."""
    offered: Sequence[str] = socket.scope.get("subprotocols", [])
    protocol = next((name for name in offered if name.startswith(KEY)), None)
    secret = bearer(socket)
    if secret is None and protocol is not None:
        secret = protocol.removeprefix(KEY)
        # What may not stand in a subprotocol is written as in an address.
        if (plain := unquote(secret)) != secret and any(
            hmac.compare_digest(key.secret.encode(), plain.encode()) for key in state.access.keys
        ):
            secret = plain
    return state.access.caller(secret), protocol or next(iter(offered), None)


async def _denied(socket: WebSocket, refusal: Refusal) -> None:
    """An answer of HTTP instead of a WebSocket, where the server can give one."""
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        await socket.send_denial_response(JSONResponse(refusal.body(), refusal.status, refusal.headers))
    else:
        await socket.close(POLICY, refusal.message[:120])


@dataclass
class _Opener:
    """Makes captions as the address and a ``configure`` event ask for. model: the last that was asked for"""

    state: State
    socket: WebSocket
    caller: Caller
    model: str = "none"

    async def __call__(self, wishes: Mapping[str, Any]) -> Opened:
        state = self.state
        form, rate = read_wishes(self.socket.query_params.multi_items(), wishes, next(iter(state.settings.models)))
        asked = await asyncio.to_thread(read_request, form, "translate", state.settings, state.library)
        way, self.model = asked.way, asked.way.model
        if asked.terms:
            if state.terms is None:
                raise Refusal(422, "This server keeps no lists of terms: leave out terms.", "terms", "not_served")
            way = replace(way, terms=await state.terms.resolve(asked.terms, way))
        longest = await state.engine.longest(way.model) - _MARGIN
        decode = await state.engine.run(way.model, lambda translator: translator.backbone.target.decode)
        detector = await asyncio.to_thread(best_detector)

        async def utterance(samples: np.ndarray, begins: Sequence[int]) -> Translation:
            return await state.engine.utterance(samples, way, begins)

        def keep(final: Final, samples: np.ndarray) -> str:
            id = f"{self.socket.state.request_id}_{final.segment}"
            segment = Segment(0.0, len(samples) / SAMPLE_RATE, final.text, stores=tuple(final.stores.items()))
            state.recent.remember(id, way, samples, [segment], self.caller.name)
            return id

        pauses = replace(Pauses(), longest=min(Pauses().longest, longest))
        return Captions(utterance, decode, detector, pauses, keep=keep), rate


def read_wishes(address: Sequence[tuple[str, str]], wishes: Mapping[str, Any], default: str) -> tuple[Form, int]:
    """The fields of a request, and the rate of the samples. A ``configure`` event replaces what the address says.

    default: the model where none is named
    """
    fields: dict[str, list[str]] = {}
    for name, value in address:
        fields.setdefault(name, []).append(value)
    for name, value in wishes.items():
        fields[name] = [value if isinstance(value, str) else json.dumps(value)]
    for name in fields:
        if name not in _PARAMETERS:
            known = ", ".join(_PARAMETERS)
            raise Refusal(422, f"Live captions know no {name[:60]!r}; they know {known}.", name[:60], "unknown_field")
    given = fields.pop("sample_rate", [str(SAMPLE_RATE)])[-1]
    least, most = RATES
    if not (given.isascii() and given.isdigit() and len(given) < 9 and least <= int(given) <= most):
        raise Refusal(422, f"sample_rate is a whole number from {least} to {most}, not {given[:40]!r}.", "sample_rate")
    if not fields.get("model", [""])[-1]:
        fields["model"] = [default]
    return Form(fields), int(given)
