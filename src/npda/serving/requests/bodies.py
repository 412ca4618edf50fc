"""JSON that clients send: received under a limit, and checked."""

from __future__ import annotations

import json
import unicodedata
from typing import Annotated, Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError
from starlette.requests import ClientDisconnect, Request

from npda.serving.errors import Refusal
from npda.serving.requests.receiving import too_large
from npda.serving.settings import MEGABYTE

MOST = 4 * MEGABYTE  # bytes of a body

M = TypeVar("M", bound=BaseModel)


def plain(text: Any) -> Any:
    """White space folded; refused where it could not be stored, or shown to anybody."""
    if not isinstance(text, str):
        return text  # which is refused next
    text = " ".join(text.split())
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise PydanticCustomError("not_plain", "it holds control characters or halves of characters")
    return text


Plain = Annotated[str, BeforeValidator(plain)]


class Body(BaseModel):
    """What clients send as JSON, or as fields of a form; fields that are not known are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


async def json_body(request: Request, kind: type[M], most: int = MOST) -> M:
    """most: bytes"""
    received = bytearray()
    try:
        async for chunk in request.stream():
            received += chunk
            if len(received) > most:
                raise too_large(most)
    except ClientDisconnect:
        raise Refusal(400, "The request was broken off.", code="broken_off") from None
    try:
        found = json.loads(received)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is not JSON.", code="bad_json") from None
    return checked(kind, found)


def checked(kind: type[M], found: Any) -> M:
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from None


def described(kind: type[BaseModel], form: dict[str, str] | None = None) -> dict[str, Any]:
    """For a route's ``openapi_extra``: a body of JSON or, with ``form``, one of fields and a file.

    form: what the file is, and the fields beside it, by their names
    """
    content: dict[str, Any] = {"application/json": {"schema": _schema(kind)}}
    if form is not None:
        fields: dict[str, Any] = {name: {"type": "string", "description": text} for name, text in form.items()}
        fields["file"]["format"] = "binary"
        schema = {"type": "object", "required": ["file"], "additionalProperties": False, "properties": fields}
        content["multipart/form-data"] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}


def _schema(kind: type[BaseModel]) -> dict[str, Any]:
    """With the definitions in the places that refer to them."""
    schema = kind.model_json_schema(ref_template="{model}")
    definitions = schema.pop("$defs", {})

    def filled(part: Any) -> Any:
        if isinstance(part, dict):
            return filled(definitions[part["$ref"]]) if "$ref" in part else {k: filled(v) for k, v in part.items()}
        return [filled(each) for each in part] if isinstance(part, list) else part

    return filled(schema)
