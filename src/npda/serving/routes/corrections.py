"""Corrections: what a translation ought to have been, at work the moment it is sent."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from npda.segmentation import Pauses
from npda.serving.access import Edits, Translates
from npda.serving.engine.asks import Way
from npda.serving.errors import Refusal
from npda.serving.logs import log_request
from npda.serving.requests.asking import language_of, served
from npda.serving.requests.bodies import Body, Plain, checked, described, is_json, json_body
from npda.serving.requests.documented import answers
from npda.serving.requests.vanishing import while_connected
from npda.serving.state import State, state_of
from npda.serving.stores.correcting import Correcting, Wish, sentence, which
from npda.serving.stores.corrections import Correction
from npda.serving.stores.library import check_name

router = APIRouter(prefix="/v1/corrections", tags=["Corrections"])

LETTERS = 4_000  # of a text at most

_FORM = {
    "file": "A recording of the sentence, where no request is remembered: any container.",
    "text": "What the translation ought to be.",
    "store": "The store to add it to; one of this name is made where there is none.",
    "model": "Which model translates, as for /v1/audio/translations; the default where it is left out.",
    "language": "What is spoken.",
    "target_language": "What is to be written.",
    "segment": "Which sentence of the recording, counted from 0.",
    "heard": "What was said.",
}


class NewCorrection(Body):
    """Of a sentence of a request that is remembered."""

    request_id: str = Field(max_length=200, description="As verbose_json, X-Request-Id or a final caption tells it.")
    segment: int | None = Field(None, description="`id` of the segment; may be left out where there is one only.")
    text: Plain = Field(min_length=1, max_length=LETTERS, description=_FORM["text"])
    store: str = Field(max_length=200, description=_FORM["store"])
    heard: Plain = Field("", max_length=LETTERS, description="What was said, to be shown beside it.")


class _Form(Body):
    text: Plain = Field(min_length=1, max_length=LETTERS)
    store: str
    model: str | None = None
    language: str | None = None
    target_language: str | None = None
    segment: int | None = None
    heard: Plain = Field("", max_length=LETTERS)


@router.post(
    "",
    summary="Correct a sentence",
    status_code=201,
    responses=answers(400, 401, 404, 408, 413, 415, 422, 503, 504),
    openapi_extra=described(NewCorrection, _FORM),
)
async def correct(request: Request, caller: Edits) -> dict[str, Any]:
    """Give the text that should have been written, for a request that the server remembers (JSON) or for a recording
    (a form). The next translation of this sentence comes out right wherever the store is on.
    """
    state = state_of(request)
    correcting = _correcting(state)
    if is_json(request):
        asked = await json_body(request, NewCorrection)
        found = state.recent.get(asked.request_id)
        place = which(asked.segment, len(found.segments), "The request")
        way, samples = found.way, found.samples(place)
    else:
        asked, way, samples = await _received(request, state)
    check_name(asked.store)
    await asyncio.to_thread(_check_store, state, asked.store, way.model)
    wish = Wish(samples, asked.text, asked.heard)
    kept = await while_connected(request, correcting.add(asked.store, way, caller.name, wish))
    state.metrics.corrections.inc()
    content = {"text": kept.text} if state.settings.log_content else {}
    log_request("corrected", store=kept.store, model=kept.model, user=kept.user, **content)
    return _told(kept)


@router.get("", summary="List corrections, the latest first", responses=answers(401, 404, 422))
async def corrections(
    request: Request,
    _: Translates,
    store: Annotated[str | None, Query(description="Of this store only.")] = None,
    user: Annotated[str | None, Query(description="Of the key of this name only.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many at most.")] = 1_000,
) -> dict[str, Any]:
    kept = _correcting(state_of(request)).kept
    found = await asyncio.to_thread(kept.listed, store, user, limit)
    return {"object": "list", "data": [_told(each) for each in found]}


@router.delete("", summary="Remove all corrections of a store, or of a user in it", responses=answers(401, 404, 422))
async def remove_all(
    request: Request,
    caller: Edits,
    store: Annotated[str, Query(description="Of this store.")],
    user: Annotated[str | None, Query(description="Of the key of this name only.")] = None,
) -> dict[str, int]:
    count = await asyncio.to_thread(_correcting(state_of(request)).kept.remove_all, store, user)
    log_request("corrections removed", store=store, count=count, user=caller.name)
    return {"removed": count}


@router.delete("/{id}", summary="Remove a correction", status_code=204, responses=answers(401, 404, 422))
async def remove(request: Request, id: str, caller: Edits) -> Response:
    await asyncio.to_thread(_correcting(state_of(request)).kept.remove, id)
    log_request("correction removed", id=id, user=caller.name)
    return Response(status_code=204)


async def _received(request: Request, state: State) -> tuple[_Form, Way, np.ndarray]:
    """A recording of the sentence, and what was sent along with it."""
    async with state.uploads.form(request) as form:
        for name in form.files:
            if name != "file":
                raise Refusal(422, f"{name[:60]!r} must not be a file.", name[:60])
        upload = form.file()
        asked = checked(_Form, {name: value for name in form.fields if (value := form.one(name)) is not None})
        model, _ = served(asked.model, state.settings) if asked.model else (next(iter(state.settings.models)), None)
        spoken, written = language_of(asked.language, "language"), language_of(asked.target_language, "target_language")
        with state.decoder.room.taken() as share:
            samples = await while_connected(request, state.decoder.samples(upload, share))
            pauses = await state.engine.run(model, lambda translator: translator.within_reach(Pauses()))
            samples = await asyncio.to_thread(sentence, samples, pauses, asked.segment)
    return asked, Way(model, spoken, written), samples


def _check_store(state: State, name: str, model: str) -> None:
    """A store may be new; one that there is must be of this model."""
    cards = [card for card in state.library.cards() if card.name == name] if state.library is not None else []
    if cards and not any(card.model in ("", model) for card in cards):
        raise Refusal(
            422, f"The store {name} was made with {cards[0].model}, not with {model}: choose another one.", "store"
        )


def _correcting(state: State) -> Correcting:
    if state.corrections is None:
        raise Refusal(404, "This server keeps no corrections.", code="not_served")
    return state.corrections


def _told(kept: Correction) -> dict[str, Any]:
    return {
        "id": kept.id,
        "object": "correction",
        "store": kept.store,
        "source": kept.source,
        "user": kept.user,
        "model": kept.model,
        "text": kept.text,
        "heard": kept.heard,
        "language": kept.language,
        "created": round(kept.created, 3),
        "keys": kept.keys,
    }
