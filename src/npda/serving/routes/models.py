"""The models that are served, alone and with each of their stores."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from npda.serving.access import Translates
from npda.serving.errors import Refusal
from npda.serving.requests.asking import served
from npda.serving.requests.documented import answers
from npda.serving.state import State, state_of

router = APIRouter(prefix="/v1/models", tags=["Models"])


@router.get("", summary="List the models", responses=answers(401, 503))
async def models(request: Request, _: Translates) -> dict[str, Any]:
    """In OpenAI's shape, with `npda` beside it. NAME+STORE is the model NAME steered by that store alone."""
    return {"object": "list", "data": await asyncio.to_thread(_listed, state_of(request))}


@router.get("/{id:path}", summary="Describe a model", responses=answers(401, 404, 503))
async def model(request: Request, id: str, _: Translates) -> dict[str, Any]:
    state = state_of(request)
    listed = await asyncio.to_thread(_listed, state)
    if found := next((one for one in listed if one["id"] == id), None):
        return found
    name, stores = served(id, state.settings)
    known = {one["id"]: one for one in listed}
    if not all(f"{name}+{store}" in known for store in stores or ()):
        raise Refusal(404, f"There is no model {id[:100]!r}: GET /v1/models lists them.", "model", "model_not_found")
    return _described(state, id, name, list(stores or known[name]["npda"]["stores"]))


def _listed(state: State) -> list[dict[str, Any]]:
    found = []
    for name in state.settings.models:
        stores = [card.name for card in state.library.cards(name)] if state.library is not None else []
        found.append(_described(state, name, name, stores))
        found += [_described(state, f"{name}+{store}", name, [store]) for store in stores]
    return found


def _described(state: State, id: str, name: str, stores: list[str]) -> dict[str, Any]:
    about = state.models.models[name]
    return {
        "id": id,
        "object": "model",
        "created": about.created,
        "owned_by": "npda",
        "npda": {
            "loaded": state.engine.is_loaded(name),
            "source_languages": about.source_languages,
            "target_languages": about.target_languages,
            "tasks": about.tasks,
            "stores": stores,
            "default": id == next(iter(state.settings.models)),
        },
    }
