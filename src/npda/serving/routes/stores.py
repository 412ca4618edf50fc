"""Stores: what there is, and how people make, change and delete them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from npda.corpus.languages import language_code
from npda.io.errors import InputError
from npda.serving.access import Caller, Edits, Translates
from npda.serving.engine.asks import AUTO, StoreCard
from npda.serving.errors import Refusal
from npda.serving.requests.asking import served
from npda.serving.requests.documented import JobAnswer, StoreAnswer, StoreList, answers, text_form
from npda.serving.requests.receiving import Form
from npda.serving.routes.jobs import jobs_of, told
from npda.serving.state import State, state_of
from npda.serving.stores.jobs import PAIRS, Job, Kind
from npda.serving.stores.library import Belongs, StoreLibrary, check_name
from npda.serving.stores.uploaded import Languages, keep_pairs
from npda.translator import Translator

router = APIRouter(prefix="/v1/stores", tags=["Stores"])

RESERVED = (AUTO, "none")  # what these mean where stores are chosen
_LETTERS = 200  # of a licence, an origin or the name of a source
_FIELDS = ("name", "source", "model", "source_language", "language", "licence", "origin", "kind")
_CREATES = answers(400, 401, 404, 408, 409, 413, 415, 422, 503, 504)


@router.get("", summary="List the stores", responses=answers(401, 503))
async def stores(request: Request, _: Translates) -> StoreList:
    cards = await asyncio.to_thread(state_of(request).library.cards)
    return StoreList(data=[_told(card) for card in cards])


@router.get("/{name}", summary="Look at a store", responses=answers(401, 404, 409, 503))
async def store(request: Request, name: str, _: Translates) -> StoreAnswer:
    """What is in it, who may use it how (licence), and what it is worth: gain on its domain, harm to other speech."""
    return _told(await asyncio.to_thread(_library(state_of(request)).card, name))


@router.post(
    "", status_code=202, summary="Make a store", responses=_CREATES,
    openapi_extra=text_form(_FIELDS, ("file", "name")),
)  # fmt: skip
async def create(request: Request, caller: Edits) -> JobAnswer:
    """Of a table (TSV, CSV) or translation memory (TMX) of sentences with their translations. The answer is a job; the
    store can be used as soon as it is done."""
    state = state_of(request)
    async with state.uploads.form(request, _most(state)) as form:
        wish = _wish(form, "create")
        name = check_name(form.one("name") or "")
        if name in RESERVED:
            raise Refusal(422, f"A store cannot be called {name}, which has a meaning of its own.", "name")
        if await asyncio.to_thread(_library(state).exists, name):
            raise Refusal(
                409, f"There is a store {name}: POST to /v1/stores/{name}/sources to add to it.", "name", "store_exists"
            )
        model = _model(state, form, None)
        await _check_model(state, model, wish)
        return await _queue(state, form, caller, "create", name, wish, model, request.state.request_id)


@router.post(
    "/{name}/sources", status_code=202, summary="Add to a store", responses=_CREATES,
    openapi_extra=text_form(_FIELDS[1:], ("file",)),
)  # fmt: skip
async def append(request: Request, name: str, caller: Edits) -> JobAnswer:
    """A file of sentences becomes one more source. The store stays as it was until the job is done."""
    state = state_of(request)
    await asyncio.to_thread(_editable, state, name)
    async with state.uploads.form(request, _most(state)) as form:
        wish = _wish(form, "append")
        card = await asyncio.to_thread(_library(state).card, name)
        if wish.source in card.sources:
            raise Refusal(
                409, f"{name} has a source {wish.source}: remove that one, or call this one otherwise.", "source",
                "source_exists",
            )  # fmt: skip
        model = _model(state, form, card)
        belongs = await _check_model(state, model, wish)
        kind = await asyncio.to_thread(_change, state, name, model, belongs)
        return await _queue(state, form, caller, kind, name, wish, model, request.state.request_id)


@router.delete(
    "/{name}/sources/{source:path}", status_code=202, summary="Remove a source",
    responses=answers(401, 404, 409, 503),
)  # fmt: skip
async def remove(request: Request, name: str, source: str, caller: Edits) -> JobAnswer:
    """The rest of the store stays, and is tuned again."""
    state = state_of(request)
    await asyncio.to_thread(_editable, state, name)
    card = await asyncio.to_thread(_library(state).card, name)
    if source not in card.sources:
        known = ", ".join(card.sources)
        raise Refusal(404, f"{name} has no source {source[:80]!r}; it has {known}.", "source", "source_not_found")
    if len(card.sources) == 1:
        raise Refusal(409, f"{source} is all that {name} has: delete the store.", "source", "only_source")
    spec = {"model": _model(state, Form(), card), "source": source, "request": request.state.request_id}
    return told(await asyncio.to_thread(_add, state, "remove", name, caller, spec, None))


@router.delete("/{name}", status_code=204, summary="Delete a store", responses=answers(401, 404, 409))
async def delete(request: Request, name: str, _: Edits) -> Response:
    """Its corrections go with it. Translations that have begun with it end with it."""
    state = state_of(request)
    await asyncio.to_thread(_delete, state, name)
    return Response(status_code=204)


@dataclass(frozen=True)
class _Wish:
    """What a form says of a file. source: its name in the store"""

    source: str
    languages: Languages
    licence: str
    origin: str
    terms_too: bool


def _wish(form: Form, kind: Kind) -> _Wish:
    upload = form.file()
    for name in form.fields:
        if name not in _FIELDS or (name == "name" and kind != "create"):
            known = ", ".join(_FIELDS if kind == "create" else _FIELDS[1:])
            raise Refusal(422, f"{name[:60]!r} is no field of this endpoint; it has {known}.", name[:60])
    if form.one("kind") not in (None, "auto", "sentences"):
        raise Refusal(422, "kind is auto or sentences.", "kind")
    source = _line(form, "source") or _line(form, "name") or upload.name
    spoken, written = _language(form, "source_language"), _language(form, "language")
    sentences = form.one("kind") == "sentences"
    return _Wish(source, Languages(spoken, written), _line(form, "licence"), _line(form, "origin"), sentences)


def _line(form: Form, name: str) -> str:
    value = " ".join((form.one(name) or "").split())
    if len(value) > _LETTERS or not all(character.isprintable() for character in value):
        raise Refusal(422, f"{name} has {_LETTERS} letters at most, all of which can be read.", name)
    return value


def _language(form: Form, name: str) -> str | None:
    given = form.one(name)
    try:
        return language_code(given[:60]) if given else None
    except InputError as error:
        raise Refusal(422, str(error), name, "unknown_language") from None


def _model(state: State, form: Form, card: StoreCard | None) -> str:
    """As the form says; else the one that made the store, else the default."""
    named = form.one("model") or (card.model if card else "") or next(iter(state.settings.models))
    model, chosen = served(named, state.settings)
    if chosen is not None:
        raise Refusal(422, "model names a model alone, without stores.", "model")
    return model


async def _check_model(state: State, model: str, wish: _Wish) -> Belongs:
    """Whether a model can read text, and writes this language. → digests of its decoder and vocabulary"""
    library, spoken, written = _library(state), wish.languages.spoken, wish.languages.written

    def check(translator: Translator) -> Belongs:
        try:
            told = translator.hearing(spoken) if spoken else translator
        except InputError as error:
            raise Refusal(422, str(error), "source_language") from None
        if told.backbone.source is None or not told.backbone.reads:
            raise Refusal(
                422,
                f"The model {model} cannot read text yet: `npda align` trains its text path. Or build the store with "
                "`npda build --speak`, and put it into the folder of --stores.",
                "model",
                "cannot_read",
            )
        try:
            told.backbone.prompt(written or state.settings.language)
        except InputError as error:
            raise Refusal(422, str(error), "language") from None
        return library.belongs(translator, model)

    return await state.engine.run(model, check)


def _change(state: State, name: str, model: str, belongs: Belongs) -> Kind:
    """What it takes to add to a store: one that consists of corrections alone has to be made."""
    library = _library(state)
    if not library.exists(name):
        return "create"
    if library.version(name).belongs_to != belongs:
        raise Refusal(422, f"The store {name} was made with another model than {model}.", "model", "other_model")
    return "append"


async def _queue(
    state: State, form: Form, caller: Caller, kind: Kind, name: str, wish: _Wish, model: str, request: str
) -> JobAnswer:
    """Read the whole file, so that what is wrong with it is said at once, and queue the job."""
    settings, jobs = state.settings, jobs_of(state)
    spoken = wish.languages.spoken or settings.source_language
    written = wish.languages.written or settings.language or state.models.written(model)
    spec: dict[str, Any] = {
        "model": model, "source": wish.source, "source_language": spoken, "language": written,
        "licence": wish.licence, "origin": wish.origin, "request": request,
    }  # fmt: skip
    id = jobs.new_id()

    def keep() -> Job:
        target = jobs.folder_of(id) / PAIRS
        try:
            spec["pairs"] = keep_pairs(
                form.file(), target, Languages(spoken, written), settings.max_pairs, wish.terms_too
            )
            return _add(state, kind, name, caller, spec, id)
        except BaseException:
            jobs.forget(id)
            raise

    return told(await asyncio.to_thread(keep))


def _add(state: State, kind: Kind, name: str, caller: Caller, spec: dict[str, Any], id: str | None) -> Job:
    jobs = jobs_of(state)
    if kind == "create" and jobs.busy_with(name) is not None:
        raise Refusal(409, f"A store {name} is being made already: GET /v1/jobs.", "name", "store_exists")
    return jobs.add(id or jobs.new_id(), kind, name, caller.name, spec)


def _delete(state: State, name: str) -> None:
    library = _library(state)
    if (job := jobs_of(state).busy_with(name)) is not None and library.exists(name):
        raise Refusal(409, f"{name} is being changed: cancel the job {job.id} first.", "name", "store_busy")
    corrections = state.corrections.kept if state.corrections is not None else None
    if library.exists(name) or corrections is None or not corrections.counts(name):
        library.delete(name)
    if corrections is not None:
        corrections.remove_all(name)


def _editable(state: State, name: str) -> None:
    if not _library(state).card(name).editable:
        raise Refusal(403, f"The store {name} is only read by this server: make one of your own.", "name", "read_only")


def _library(state: State) -> StoreLibrary:
    if not isinstance(state.library, StoreLibrary):
        raise Refusal(404, "This server keeps no stores of its own.", code="not_served")
    return state.library


def _most(state: State) -> int:
    return min(state.settings.max_upload, state.settings.max_text)


def _told(card: StoreCard) -> StoreAnswer:
    about = dict(card.card)
    sources = about.pop("sources", None)
    return StoreAnswer(
        name=card.name,
        model=card.model,
        keys=card.keys,
        sources=[{"name": name} for name in card.sources] if sources is None else sources,
        editable=card.editable,
        card=about,
    )
