"""OpenAI's endpoints for audio: recordings in, translations or transcripts out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from npda import audio
from npda.corpus.languages import NAMES
from npda.io.errors import InputError
from npda.serving.access import Caller, Translates
from npda.serving.engine.asks import AUTO
from npda.serving.errors import Refusal
from npda.serving.logs import log_request
from npda.serving.requests.answering import MEDIA, as_json, as_text, as_verbose_json, delta, event, joined, tokens
from npda.serving.requests.asking import Asked, Task, read_request
from npda.serving.requests.documented import AUDIO_BODY, answers
from npda.serving.requests.logprobs import token_logprobs
from npda.serving.requests.recent import heard_for
from npda.serving.requests.vanishing import HoldingResponse, while_connected
from npda.serving.state import State, state_of
from npda.terms.ear import can_hear
from npda.translator import Translator
from npda.writers import Segment

router = APIRouter(prefix="/v1/audio", tags=["Audio"])

_ANSWERS = answers(400, 401, 404, 408, 413, 415, 422, 503, 504) | {
    200: {
        "description": "JSON, text, subtitles or, with `stream`, server-sent events.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            **{kind: {"schema": {"type": "string"}} for kind in (*MEDIA.values(), "text/event-stream")},
        },
    }
}


@dataclass(frozen=True)
class _Job:
    """A request that has been received. name: of the recording, for subtitles"""

    state: State
    asked: Asked
    caller: Caller
    id: str
    samples: np.ndarray
    name: str

    @property
    def seconds(self) -> float:
        return len(self.samples) / audio.SAMPLE_RATE

    def headers(self) -> dict[str, str]:
        return {"X-Ignored": ", ".join(self.asked.ignored)} if self.asked.ignored else {}

    def done(self, segments: list[Segment]) -> None:
        """Remember and count what was translated."""
        way = self.asked.way
        self.state.recent.remember(self.id, way, self.samples, segments, self.caller.name)
        self.state.metrics.audio.labels(way.model).inc(self.seconds)
        content = {"text": joined(segments)} if self.state.settings.log_content else {}
        log_request("translated", model=way.model, user=self.caller.name, audio=round(self.seconds, 2), **content)


@router.post(
    "/translations",
    summary="Translate a recording",
    responses=_ANSWERS,
    openapi_extra=AUDIO_BODY,
    response_class=Response,
)
async def translations(request: Request, caller: Translates) -> Response:
    """Into the model's target language, or `target_language`. Recordings may have any container and any length."""
    return await _answer(request, caller, "translate")


@router.post(
    "/transcriptions", summary="Write down a recording", responses=_ANSWERS, openapi_extra=AUDIO_BODY,
    response_class=Response,
)  # fmt: skip
async def transcriptions(request: Request, caller: Translates) -> Response:
    """In the language that is spoken, with models that can (Whisper). Others translate: see /v1/audio/translations."""
    return await _answer(request, caller, "transcribe")


async def _answer(request: Request, caller: Caller, task: Task) -> Response:
    state = state_of(request)
    async with AsyncExitStack() as stack:
        async with AsyncExitStack() as receiving:
            with state.metrics.phase("receive"):
                form = await receiving.enter_async_context(state.uploads.form(request))
            upload = form.file()
            asked = await asyncio.to_thread(read_request, form, task, state.settings, state.library)
            share = stack.enter_context(state.decoder.room.taken())
            with state.metrics.phase("decode"):
                samples = await while_connected(request, state.decoder.samples(upload, share))
        asked = await while_connected(request, _ready(state, asked))
        job = _Job(state, asked, caller, request.state.request_id, samples, upload.name)
        if not asked.stream:
            with state.metrics.phase("translate"):
                return await while_connected(request, _whole(job))
        pieces = await stack.enter_async_context(aclosing(_pieces(job)))
        # Whatever is refused is refused before the stream begins.
        first = await while_connected(request, anext(pieces, None))
        stream = HoldingResponse(_events(job, first, pieces), media_type="text/event-stream", headers=job.headers())
        return stream.hold(stack.pop_all())


async def _ready(state: State, asked: Asked) -> Asked:
    """What needs the model: whether it can write down what is said, and how it renders terms."""
    way = asked.way
    if asked.task == "transcribe":
        spoken = way.source_language or state.settings.source_language
        can, knows = await state.engine.run(way.model, lambda translator: _hears(translator, spoken))
        if not can:
            raise Refusal(
                422,
                f"The model {way.model} translates, it cannot write down what is said: POST to /v1/audio/translations.",
                "model",
                "cannot_transcribe",
            )
        if knows is None:
            raise Refusal(422, "Say which `language` is spoken, such as de.", "language", "missing")
        way = replace(way, source_language=knows, language=knows)
    if asked.terms:
        if state.terms is None:
            raise Refusal(422, "This server keeps no lists of terms: leave out terms.", "terms", "not_served")
        way = replace(way, terms=await state.terms.resolve(asked.terms, way))
    return replace(asked, way=way)


def _hears(translator: Translator, spoken: str | None) -> tuple[bool, str | None]:
    """Whether a model can write down what is said, and which language it takes that for."""
    try:
        told = translator.hearing(spoken) if spoken else translator
    except InputError as error:
        raise Refusal(422, str(error), "language") from None
    return can_hear(told.backbone), told.backbone.source_language


async def _pieces(job: _Job) -> AsyncGenerator[Segment, None]:
    """The segments, as the engine finds them."""
    segments = job.state.engine.segments(job.samples, job.asked.way)
    try:
        async for segment in segments:
            yield segment
    finally:
        if isinstance(segments, AsyncGenerator):
            await segments.aclose()


async def _whole(job: _Job) -> Response:
    asked = job.asked
    segments = [segment async for segment in _pieces(job)]
    if asked.format in MEDIA:
        job.done(segments)
        return Response(as_text(asked, segments, job.name), media_type=MEDIA[asked.format], headers=job.headers())
    found: dict[str, Any]
    if asked.format == "verbose_json":
        explanations = None
        if asked.explain:
            explanations = [await _explained(job, segment) for segment in segments]
        found = as_verbose_json(asked, segments, job.seconds, job.id, _language(job), explanations)
    else:
        logprobs = await token_logprobs(job.state, asked.way, job.samples, segments) if asked.logprobs else None
        found = as_json(segments, job.seconds, logprobs)
    job.done(segments)
    return JSONResponse(found, headers=job.headers())


async def _explained(job: _Job, segment: Segment) -> Any:
    """None where there is no store that could have a say."""
    way = job.asked.way
    cards = job.state.library.cards(way.model) if way.stores == AUTO and job.state.library is not None else []
    if way.stores == () or (way.stores == AUTO and not cards):
        return None
    return await job.state.engine.explain(heard_for(segment, job.samples), way)


def _language(job: _Job) -> str:
    """The English name of the language of the answer, as OpenAI gives it; "" where nobody has said it."""
    way, settings = job.asked.way, job.state.settings
    code = way.language or settings.language or job.state.models.written(way.model)
    return NAMES.get(code, code).split(" ")[0].lower() if code else ""


async def _events(job: _Job, first: Segment | None, pieces: AsyncIterator[Segment]) -> AsyncIterator[str]:
    """Segment by segment; what goes wrong on the way is an event, too."""
    segments: list[Segment] = []
    logprobs: list[dict[str, Any]] = []
    try:
        segment = first
        while segment is not None:
            found = delta(segment, not segments, len(segments))
            if job.asked.explain:
                explanation = await _explained(job, segment)
                found["segment"]["explanation"] = explanation and json.loads(explanation.to_json())
            if job.asked.logprobs:
                found["logprobs"] = await token_logprobs(job.state, job.asked.way, job.samples, [segment])
                logprobs += found["logprobs"]
            yield event(found)
            segments.append(segment)
            segment = await anext(pieces, None)
    except Refusal as refusal:
        yield event(refusal.body())
        return
    job.done(segments)
    done = {"type": "transcript.text.done", "text": joined(segments), "usage": tokens(job.seconds, segments)}
    yield event({**done, "logprobs": logprobs} if job.asked.logprobs else done)
    yield "data: [DONE]\n\n"
