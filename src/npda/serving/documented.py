"""What the OpenAPI document says of requests and answers that FastAPI cannot read off the code."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from npda.serving.asking import FORMATS, MOST_K


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
                        "explain": _field(_TRUTH, "The neighbours behind every word, with verbose_json."),
                    },
                }
            }
        },
    }
}
