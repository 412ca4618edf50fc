"""What the OpenAPI document says of requests and answers that FastAPI cannot read off the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel

from npda.serving.requests.asking import FORMATS, MOST_K


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """Every answer other than 2xx. ``message`` is a sentence for people."""

    error: ErrorDetail


_MEANINGS = {
    400: "The request cannot be read.",
    401: "A key is needed.",
    403: "The key may not do this, or a page of another site has asked.",
    404: "There is nothing of this name.",
    405: "Not with this method.",
    408: "The request came too slowly.",
    409: "This does not fit what is there.",
    413: "Too large, or too long.",
    415: "No audio, or no form.",
    421: "Without keys, the server answers to the names of this machine only.",
    422: "Something about the request cannot be honoured.",
    503: "Busy: try again after `Retry-After` seconds.",
    504: "It took too long.",
}


class JobAnswer(BaseModel):
    """place: in the queue, from 1 on; eta_seconds: none until it can be told; times in seconds since 1970"""

    id: str
    object: Literal["job"] = "job"
    kind: Literal["create", "append", "remove"]
    target: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: float
    step: str
    eta_seconds: float | None
    place: int | None
    error: str | None
    user: str
    created: float
    started: float | None
    ended: float | None
    result: dict[str, Any]


class JobList(BaseModel):
    object: Literal["list"] = "list"
    data: list[JobAnswer]


class StoreAnswer(BaseModel):
    """model: "" where no served model is known to have made it; card: licence, tuning, gain and harm, null where they
    are not known"""

    name: str
    object: Literal["store"] = "store"
    model: str
    keys: int
    sources: list[dict[str, Any]]
    editable: bool
    card: dict[str, Any]


class StoreList(BaseModel):
    object: Literal["list"] = "list"
    data: list[StoreAnswer]


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's ``responses``: these, and what every route may say."""
    told = sorted({*statuses, 403, 405, 421})
    return {status: {"model": ErrorAnswer, "description": _MEANINGS[status]} for status in told}


def _field(kind: dict[str, Any], description: str) -> dict[str, Any]:
    return {**kind, "description": description}


_TEXT, _TRUTH, _NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "number"}

AUDIO_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "model"],
                    "additionalProperties": False,
                    "properties": {
                        "file": _field({**_TEXT, "format": "binary"}, "A recording: any container, any length."),
                        "model": _field(_TEXT, "A served name, NAME+STORE, or whisper-1 for the default model."),
                        "language": _field(_TEXT, "What is spoken: a code or a name."),
                        "target_language": _field(_TEXT, "What is to be written, for models with several languages."),
                        "prompt": _field(_TEXT, "Ignored; the answer then has X-Ignored: prompt."),
                        "temperature": _field({**_NUMBER, "minimum": 0, "maximum": 1}, "0; others are ignored."),
                        "response_format": _field({**_TEXT, "enum": list(FORMATS)}, "json unless told otherwise."),
                        "timestamp_granularities[]": _field({**_TEXT, "enum": ["segment"]}, "Times of segments."),
                        "include[]": _field({**_TEXT, "enum": ["logprobs"]}, "Log-probabilities, with json."),
                        "stream": _field(_TRUTH, "Server-sent events, segment by segment."),
                        "chunking_strategy": _field({**_TEXT, "enum": ["auto"]}, "Recordings are cut at pauses."),
                        "stores": _field(_TEXT, "Names with commas or as JSON list; auto (the default), or none."),
                        "terms": _field(_TEXT, 'Pairs, [["cabinet", "Kabinett"]], or names of lists.'),
                        "k": _field({"type": "integer", "minimum": 1, "maximum": MOST_K}, "Number of neighbours."),
                        "lambda": _field({**_NUMBER, "minimum": 0, "maximum": 1}, "Weight of the neighbours."),
                        "explain": _field(_TRUTH, "The neighbours behind every word, with verbose_json or stream."),
                    },
                }
            }
        },
    }
}


_TEXT_FIELDS = {
    "file": _field({**_TEXT, "format": "binary"}, "Sentences with translations: TSV, CSV (UTF-8) or TMX."),
    "name": _field(_TEXT, "Of the store: letters, digits, points, hyphens and underscores."),
    "source": _field(_TEXT, "Name of this file in the store; by default the store's, or the file's own."),
    "model": _field(_TEXT, "By default the one that made the store, or the first one."),
    "source_language": _field(_TEXT, "Of the sentences, such as en; for TMX, and models with several."),
    "language": _field(_TEXT, "Of the translations, such as de."),
    "licence": _field(_TEXT, "Under which the text may be used; shown with the store."),
    "origin": _field(_TEXT, "Where the text comes from; shown with the store."),
    "kind": _field({**_TEXT, "enum": ["auto", "sentences"]}, "sentences: though they are short, they are no terms."),
}


def text_form(fields: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
    """The form with which sentences are sent."""
    properties = {name: _TEXT_FIELDS[name] for name in ("file", *fields)}
    schema = {"type": "object", "required": list(required), "properties": properties}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
