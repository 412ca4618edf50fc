"""Lists of terms: what is to be written for what is said, shared by all who use the server."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, model_validator

from npda.corpus.languages import language_code
from npda.corpus.terms import Rendering, Term, read_terms
from npda.corpus.tmx import read_tmx
from npda.io.errors import InputError
from npda.serving.access import Caller, Edits, Translates
from npda.serving.errors import Refusal
from npda.serving.logs import log_request
from npda.serving.requests.asking import MOST_LETTERS, served
from npda.serving.requests.bodies import Body, Plain, checked, described, is_json, json_body
from npda.serving.requests.documented import answers
from npda.serving.requests.receiving import Upload
from npda.serving.settings import MEGABYTE
from npda.serving.state import State, state_of
from npda.serving.terms.lists import MOST_PAIRS, Entry, TermList, entries_of
from npda.serving.terms.requested import ServedTerms

router = APIRouter(prefix="/v1/terms", tags=["Terms"])

MOST_BYTES = 16 * MEGABYTE  # of a list that is uploaded
_WAYS, _RENDERINGS = 20, 50  # to say a term, and of a term

Word = Annotated[Plain, Field(max_length=MOST_LETTERS)]

_FORM = {
    "file": "A CSV or TSV with a term per line, or a TMX.",
    "name": "What the list is to be called.",
    "model": "Which model it is meant for; any, where it is left out.",
    "source_language": "Of a TMX: the language that is spoken.",
    "target_language": "Of a TMX: the language that is written.",
}


class GivenRendering(Body):
    text: Word = Field(min_length=1)
    purity: float = Field(0.5, ge=0, le=1, description="How often, of all the times this is written, the term was said")


class Pair(Body):
    """A term; two words in a list will do as well: ["cabinet", "Kabinett"]."""

    source: Word = Field(min_length=1, description="What is said; | separates ways to say the same.")
    target: Word = Field(min_length=1, description="What is to be written.")
    source_plural: Word = Field("", description="May be left out where it sounds like the singular.")
    target_plural: Word = ""
    like: Word = Field("", description="A word of the language spoken whose translation takes the target's articles.")
    renderings: list[GivenRendering] | None = Field(
        None, max_length=_RENDERINGS, description="How the model writes it, where that is not to be learnt."
    )

    @model_validator(mode="before")
    @classmethod
    def _of_two(cls, given: Any) -> Any:
        if isinstance(given, list) and len(given) == 2:
            return {"source": given[0], "target": given[1]}
        return given

    def entry(self) -> Entry:
        sources = _ways(self.source)
        if not any(letter.isalnum() for letter in "".join(sources)):
            raise Refusal(422, f"{self.source!r} contains no letter, so it cannot be spoken.", "source")
        if self.source_plural and not self.target_plural:
            raise Refusal(422, f"{self.source!r} has a source_plural and no target_plural.", "target_plural")
        given = None if self.renderings is None else tuple(Rendering(r.text, r.purity) for r in self.renderings)
        plural = _ways(self.source_plural)
        return Entry(sources, self.target, plural if plural != sources else (), self.target_plural, self.like, given)


class Pairs(Body):
    pairs: list[Pair] = Field(max_length=MOST_PAIRS)


class NewList(Pairs):
    name: str = Field(max_length=200, description=_FORM["name"])
    model: str | None = Field(None, max_length=200, description=_FORM["model"])


class _Form(Body):
    name: str | None = None
    model: str | None = None
    source_language: str | None = None
    target_language: str | None = None


@router.get("", summary="List the lists of terms", responses=answers(401, 404, 422))
async def lists(
    request: Request,
    _: Translates,
    model: Annotated[str | None, Query(description="Only those that this model may use.")] = None,
) -> dict[str, Any]:
    terms = _terms(state_of(request))
    found = await asyncio.to_thread(terms.lists.all, model)
    return {"object": "list", "data": [_told(each) for each in found]}


@router.post(
    "",
    summary="Create a list",
    status_code=201,
    responses=answers(400, 401, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra=described(NewList, _FORM),
)
async def create(request: Request, caller: Edits) -> dict[str, Any]:
    """Of pairs (JSON) or of a file (a form). Requests may name it at once; its renderings are learnt meanwhile."""
    state = state_of(request)
    terms = _terms(state)
    name, model, entries = await _received(request, state, NewList)
    if name is None:
        raise Refusal(422, "Give the list a `name`.", "name", "missing")
    if model is not None:
        model, _ = served(model, state.settings)
    made = await asyncio.to_thread(terms.lists.create, name, model, caller.name, entries)
    return _changed(state, caller, made, "created")


@router.get("/{name}", summary="Read a list", responses=answers(401, 404, 422))
async def read(
    request: Request,
    name: str,
    _: Translates,
    model: Annotated[str | None, Query(description="Whose renderings are shown; by default the list's own.")] = None,
) -> dict[str, Any]:
    """With the renderings of its terms, as far as they have been learnt."""
    state = state_of(request)
    if model is not None:
        model, _stores = served(model, state.settings)
    return await asyncio.to_thread(_whole, state, name, model)


@router.put(
    "/{name}",
    summary="Replace all pairs of a list",
    responses=answers(400, 401, 404, 408, 413, 415, 422, 503),
    openapi_extra=described(Pairs, {name: text for name, text in _FORM.items() if name not in ("name", "model")}),
)
async def replace(request: Request, name: str, caller: Edits) -> dict[str, Any]:
    state = state_of(request)
    _given, _model, entries = await _received(request, state, Pairs)
    made = await asyncio.to_thread(_terms(state).lists.replace, name, entries)
    return _changed(state, caller, made, "replaced")


@router.delete("/{name}", summary="Delete a list", status_code=204, responses=answers(401, 404, 422))
async def delete(request: Request, name: str, caller: Edits) -> Response:
    """Requests under way go on with it."""
    await asyncio.to_thread(_terms(state_of(request)).lists.delete, name)
    log_request("list of terms deleted", list=name[:64], user=caller.name)
    return Response(status_code=204)


@router.put(
    "/{name}/pairs/{source:path}",
    summary="Change a pair, or add it",
    responses=answers(400, 401, 404, 408, 413, 415, 422),
    openapi_extra=described(Pair),
)
async def put_pair(request: Request, name: str, source: str, caller: Edits) -> dict[str, Any]:
    """`source` in the body may differ: then the pair is renamed."""
    state = state_of(request)
    if not is_json(request):
        raise Refusal(415, "Send JSON (Content-Type: application/json).", code="no_json")
    entry = (await json_body(request, Pair, MEGABYTE)).entry()
    await asyncio.to_thread(_terms(state).lists.put, name, source, entry)
    return _changed(state, caller, await asyncio.to_thread(_terms(state).lists.about, name), "changed")


@router.delete(
    "/{name}/pairs/{source:path}", summary="Delete a pair", status_code=204, responses=answers(401, 404, 422)
)
async def delete_pair(request: Request, name: str, source: str, caller: Edits) -> Response:
    await asyncio.to_thread(_terms(state_of(request)).lists.delete_pair, name, source)
    log_request("list of terms changed", list=name[:64], user=caller.name)
    return Response(status_code=204)


async def _received(
    request: Request, state: State, kind: type[NewList] | type[Pairs]
) -> tuple[str | None, str | None, list[Entry]]:
    """Name, model and lines of a list that is sent."""
    if is_json(request):
        sent = await json_body(request, kind, MOST_BYTES)
        entries = [pair.entry() for pair in sent.pairs]
        return (sent.name, sent.model, entries) if isinstance(sent, NewList) else (None, None, entries)
    async with state.uploads.form(request, MOST_BYTES) as form:
        for name in form.files:
            if name != "file":
                raise Refusal(422, f"{name[:60]!r} must not be a file.", name[:60])
        upload = form.file()
        asked = checked(_Form, {name: value for name in form.fields if (value := form.one(name)) is not None})
        languages = (
            asked.source_language or state.settings.source_language,
            asked.target_language or state.settings.language,
        )
        entries = await asyncio.to_thread(_read, upload, *languages)
    return asked.name, asked.model, entries


def _read(upload: Upload, spoken: str | None, written: str | None) -> list[Entry]:
    """The terms of a file, whose place on the disk is nobody's business."""
    try:
        with open(upload.path, "rb") as file:
            begins = file.read(200).removeprefix(b"\xef\xbb\xbf").lstrip()
        is_tmx = upload.name.lower().endswith(".tmx") or begins.startswith((b"<?xml", b"<tmx"))
        if not is_tmx:
            found = read_terms(upload.path)
        elif spoken and written:
            pairs = read_tmx(upload.path, language_code(spoken), language_code(written))
            unique = {pair.src_text.replace("|", "/"): pair.tgt_text for pair in pairs}
            found = [Term((source,), target) for source, target in unique.items()]
        else:
            reason = "A TMX has several languages: say source_language and target_language."
            raise Refusal(422, reason, "source_language")
    except InputError as error:
        raise Refusal(422, str(error).replace(str(upload.path), upload.name), "file") from None
    for term in found:
        for word in (*term.sources, term.target):
            if len(word) > MOST_LETTERS:
                raise Refusal(422, f"{word[:40]!r}… has more than {MOST_LETTERS} letters: that is no term.", "file")
        if len(term.sources) > _WAYS:
            raise Refusal(422, f"{term.sources[0]!r} has more than {_WAYS} ways to say it.", "file")
    # What cannot be written is refused as in JSON.
    for entry in (entries := entries_of(found)):
        checked(Pair, {"source": entry.source[:MOST_LETTERS], "target": entry.target})
    return entries


def _ways(text: str) -> tuple[str, ...]:
    parts = tuple(dict.fromkeys(part for each in text.split("|") if (part := each.strip())))
    if len(parts) > _WAYS:
        raise Refusal(422, f"A term may have {_WAYS} ways to say it at most.", "source")
    return parts


def _whole(state: State, name: str, model: str | None) -> dict[str, Any]:
    terms = _terms(state)
    entries, about = terms.lists.entries(name), terms.lists.about(name)
    model = model or about.model or next(iter(state.settings.models))
    decoder = terms.learner.decoder(model)
    pairs = [terms.shown(entry, decoder) for entry in entries]
    return {**_told(about), "pairs": pairs, "learnt": sum(pair["learnt"] for pair in pairs), "size": len(pairs)}


def _changed(state: State, caller: Caller, made: TermList, how: str) -> dict[str, Any]:
    """Begin to learn what is new."""
    _terms(state).learn(made.name, made.model or next(iter(state.settings.models)))
    log_request(f"list of terms {how}", list=made.name, user=caller.name, pairs=made.pairs)
    return _told(made)


def _told(made: TermList) -> dict[str, Any]:
    return {
        "name": made.name,
        "object": "terms",
        "model": made.model,
        "user": made.user,
        "created": round(made.created, 3),
        "changed": round(made.changed, 3),
        "pairs": made.pairs,
    }


def _terms(state: State) -> ServedTerms:
    if state.terms is None:
        raise Refusal(404, "This server keeps no lists of terms.", code="not_served")
    return state.terms
