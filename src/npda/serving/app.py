"""The server: its parts put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from npda import __version__
from npda.datastore.store import Datastore
from npda.io.errors import InputError
from npda.serving.access import Access, Guarded, check_binding
from npda.serving.database import Database
from npda.serving.engine.asks import Engine, Library
from npda.serving.engine.catalogue import Catalogue
from npda.serving.engine.watch import Watch
from npda.serving.errors import Refusal
from npda.serving.metrics import Metrics
from npda.serving.requests.decoding import Decoder
from npda.serving.requests.receiving import BESIDE, Uploads
from npda.serving.requests.recent import Recent
from npda.serving.routes import audio, corrections, jobs, live, models, page, service, stores
from npda.serving.routes import terms as term_lists
from npda.serving.settings import Settings
from npda.serving.state import State
from npda.serving.stores.building import StoreBuilder
from npda.serving.stores.correcting import Correcting
from npda.serving.stores.corrections import Corrections
from npda.serving.stores.jobs import Jobs
from npda.serving.stores.library import StoreLibrary
from npda.serving.stores.versions import Opening
from npda.serving.terms.learning import TermLearner
from npda.serving.terms.lists import TermLists
from npda.serving.terms.requested import ServedTerms
from npda.serving.watching import Watched

ABOUT = (
    "Speech translation that is adapted with text alone. Audio endpoints and models are as OpenAI's clients know them."
)
_STORES = (stores.router, jobs.router, corrections.router, term_lists.router)
ROUTERS = (audio.router, live.router, models.router, *_STORES, page.router, service.router)


def create_app(
    settings: Settings, engine: Engine | None = None, library: Library | None = None, opening: Opening = Datastore
) -> FastAPI:
    """A server for these settings; engine and library are made for them unless they are given.

    opening: whoever searches the stores
    """
    check_binding(settings)
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)  # what people said is in it
    state = _state(settings, engine, library, opening)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if state.jobs is not None:
            state.jobs.start()
        state.ready = True
        try:
            yield
        finally:
            state.ready = False
            if state.jobs is not None:
                await state.jobs.close()
            if state.terms is not None:
                await state.terms.close()
            await state.engine.close()
            state.decoder.close()
            if state.database is not None:
                state.database.close()

    app = FastAPI(
        title="npda", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.npda = state
    for router in ROUTERS:
        app.include_router(router)
    handlers: dict[Any, Any] = {
        Refusal: _refused,
        InputError: lambda _, error: _answer(Refusal(422, str(error))),
        HTTPException: _http,
        RequestValidationError: _invalid,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    # The last one is the outermost.
    app.add_middleware(Guarded, settings=settings)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["X-Request-Id", "X-Ignored", "Retry-After"],
        )
    app.add_middleware(Watched, metrics=state.metrics, most=settings.max_upload + BESIDE, shared=bool(settings.origins))
    return app


def _state(settings: Settings, engine: Engine | None, library: Library | None, opening: Opening) -> State:
    """Parts that were given have no data of their own here; what is made here lies in ``settings.data``."""
    metrics = Metrics()
    database = correcting = terms = work = None
    if library is None:
        database = Database(settings.data)
        kept = Corrections(database)
        library = made = StoreLibrary(settings, database, kept, opening)
        engine = engine or _engine(settings, library, metrics)
        correcting = Correcting(settings, engine, made, kept)
        terms = ServedTerms(settings, TermLists(database), TermLearner(settings, engine, made, database))
        work = Jobs(database, settings.data, StoreBuilder(settings, made, engine), metrics, settings.max_jobs)
    return State(
        settings=settings,
        access=Access(settings.keys),
        metrics=metrics,
        recent=Recent(settings.remember),
        engine=engine or _engine(settings, library, metrics),
        library=library,
        models=Catalogue(settings),
        uploads=Uploads(settings),
        decoder=Decoder(settings),
        database=database,
        jobs=work,
        corrections=correcting,
        terms=terms,
    )


def _engine(settings: Settings, library: Library, metrics: Metrics) -> Engine:
    from npda.serving.engine.engine import BatchingEngine

    return BatchingEngine(settings, library, _watch(metrics), getattr(library, "forget", None))


def _watch(metrics: Metrics) -> Watch:
    """What the engine tells, as figures."""
    return Watch(
        phase=lambda name, seconds: metrics.seconds.labels(name).observe(seconds),
        batch=metrics.batch.observe,
        searches=metrics.searches.inc,
    )


def _answer(refusal: Refusal) -> Response:
    return JSONResponse(refusal.body(), refusal.status, refusal.headers)


async def _refused(request: Request, refusal: Refusal) -> Response:
    request.app.state.npda.metrics.refused.labels(refusal.code or str(refusal.status)).inc()
    return _answer(refusal)


async def _http(request: Request, error: HTTPException) -> Response:
    """What the framework refuses. A refusal while a body is read reaches us inside its own error."""
    if isinstance(error.__cause__, Refusal):
        return await _refused(request, error.__cause__)
    sentences = {
        400: "The request cannot be read.",
        404: f"There is nothing at {request.url.path[:200]}: GET /docs shows what there is.",
        405: f"{request.method} does not work at {request.url.path[:200]}: GET /docs shows what does.",
    }
    message = sentences.get(error.status_code, str(error.detail))
    return await _refused(request, Refusal(error.status_code, message, headers=error.headers))


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    """The first fault that was found, as a sentence."""
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path", "header")]
    param = ".".join(place) or None
    status = 400 if first["type"] == "json_invalid" else 422
    message = str(first["msg"]).rstrip(".")
    return await _refused(request, Refusal(status, f"{param}: {message}." if param else f"{message}.", param))
