"""For those who keep the server running: is it alive, is it ready, how is it doing, and what can be asked."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from npda import __version__
from npda.serving.access import Translates
from npda.serving.requests.documented import answers
from npda.serving.state import state_of

router = APIRouter(tags=["Service"])


@router.get("/healthz", summary="Is the process alive?", responses=answers())
async def healthz() -> dict[str, str]:
    return {"status": "ok", "version": __version__}


@router.get("/readyz", summary="Are requests taken?", responses=answers(503))
async def readyz(request: Request) -> Response:
    """503 while the server starts or ends, and while its queue is full."""
    state = state_of(request)
    waiting, most = state.engine.waiting, state.settings.queue
    ready = state.ready and waiting < most
    told: dict[str, Any] = {"status": "ready" if ready else "busy" if state.ready else "ending"}
    if not ready:
        told["error"] = {"message": "No requests are taken now.", "type": "server_error", "param": None, "code": "busy"}
    return JSONResponse({**told, "waiting": waiting, "queue": most}, 200 if ready else 503)


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses=answers(401) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, _: Translates) -> Response:
    state = state_of(request)
    state.metrics.queue.set(state.engine.waiting)
    for name in state.settings.models:
        state.metrics.loaded.labels(name).set(state.engine.is_loaded(name))
    return Response(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The OpenAPI document for people, without a script and without another host."""
    return HTMLResponse(_page(request.app.openapi()), headers={"Content-Security-Policy": _POLICY})


_POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


def _page(document: dict[str, Any]) -> str:
    parts = []
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            parts.append(_operation(path, method, about))
    title = f"{document['info']['title']} {document['info']['version']}"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="/static/page.css"><h1>{escape(title)}</h1>'
        f"<p>{escape(document['info'].get('description', ''))}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a></p>' + "".join(parts) + "</html>"
    )


def _operation(path: str, method: str, about: dict[str, Any]) -> str:
    rows = [(p["name"], p["in"], p.get("description", "")) for p in about.get("parameters", [])]
    for kind, content in about.get("requestBody", {}).get("content", {}).items():
        fields = content.get("schema", {}).get("properties", {})
        rows += [(name, kind, field.get("description", "")) for name, field in fields.items()]
    table = "".join(f"<tr><th scope=row>{escape(a)}<td>{escape(b)}<td>{escape(c)}" for a, b, c in rows)
    said = "".join(f"<li>{escape(code)} {escape(r.get('description', ''))}" for code, r in about["responses"].items())
    description = escape(f"{about.get('summary', '')}. {about.get('description', '')}")
    head = f"<section><h2>{method.upper()} <code>{escape(path)}</code></h2><p>{description}</p>"
    return head + (f"<table>{table}</table>" if table else "") + f"<ul>{said}</ul></section>"
