"""The page: files of the package, and example clips. Nothing comes from other hosts, and nothing may ask there."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from npda.serving.access import Translates
from npda.serving.errors import Refusal
from npda.serving.examples import read_examples
from npda.serving.requests.documented import answers
from npda.serving.state import state_of

STATIC = Path(__file__).parents[1] / "static"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",  # WebSockets to the same host included
        "img-src 'self' data:",
        "media-src 'self' blob:",
        "font-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # asked for again each time, and answered with 304 while it is the same
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}

router = APIRouter()


@dataclass(frozen=True)
class _File:
    content: bytes
    kind: str
    tag: str


@cache
def _files() -> dict[str, _File]:
    """All there is to ask for, by its path: a name from a request never becomes a path."""
    found = {}
    for path in sorted(STATIC.rglob("*")):
        if path.is_file() and path.suffix in _TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[path.relative_to(STATIC).as_posix()] = _File(content, f"{_TYPES[path.suffix]}; charset=utf-8", tag)
    return found


def _answer(request: Request, name: str) -> Response:
    file = _files().get(name)
    if file is None:
        raise Refusal(404, "There is no such file on this page.", code="not_found")
    headers = {**HEADERS, "ETag": file.tag}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)


@router.get("/", include_in_schema=False)
def page(request: Request) -> Response:
    return _answer(request, "index.html")


@router.get("/static/{name:path}", include_in_schema=False)
def static(request: Request, name: str) -> Response:
    return _answer(request, name)


@router.get("/v1/examples", summary="List example clips", tags=["Service"], responses=answers(401))
def examples(request: Request, _: Translates) -> list[dict[str, str]]:
    """Clips to try the server with: `name`, `title`, `url`, `transcript`, `reference` and `domain`."""
    return [example.told() for example in read_examples(state_of(request).settings.examples)]


@router.get(
    "/examples/{file}",
    summary="Get an example clip",
    tags=["Service"],
    response_class=FileResponse,
    responses={200: {"content": {"audio/*": {}}}} | answers(401, 404),
)
def example(request: Request, file: str, _: Translates) -> FileResponse:
    folder = state_of(request).settings.examples
    known = {example.file: example for example in read_examples(folder)}
    if folder is None or file not in known or not (folder / known[file].file).is_file():
        raise Refusal(404, "There is no example of this name: GET /v1/examples lists them.", code="not_found")
    kind = mimetypes.guess_type(file)[0] or "audio/flac"
    return FileResponse(folder / known[file].file, media_type=kind, headers={"X-Content-Type-Options": "nosniff"})
