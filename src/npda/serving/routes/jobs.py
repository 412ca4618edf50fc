"""Work that takes long: how far it is, and how to cancel it."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from npda.serving.access import Edits, Translates
from npda.serving.errors import Refusal
from npda.serving.requests.documented import JobAnswer, JobList, answers
from npda.serving.state import State, state_of
from npda.serving.stores.jobs import Job, Jobs

router = APIRouter(prefix="/v1/jobs", tags=["Stores"])


def jobs_of(state: State) -> Jobs:
    if state.jobs is None:
        raise Refusal(404, "This server does not change stores.", code="not_served")
    return state.jobs


def told(job: Job) -> JobAnswer:
    return JobAnswer(
        id=job.id,
        kind=job.kind,
        target=job.target,
        state=job.state,
        progress=round(job.progress, 4),
        step=job.step,
        eta_seconds=None if job.eta is None else round(job.eta, 1),
        place=job.place,
        error=job.error,
        user=job.user,
        created=job.created,
        started=job.started,
        ended=job.ended,
        result=dict(job.result),
    )


@router.get("", summary="List the jobs", responses=answers(401, 404))
async def jobs(request: Request, _: Translates) -> JobList:
    """Those that have ended lately and those at work, in the order of their arrival."""
    found = await asyncio.to_thread(jobs_of(state_of(request)).listed)
    return JobList(data=[told(job) for job in found])


@router.get("/{id}", summary="Look at a job", responses=answers(401, 404))
async def job(request: Request, id: str, _: Translates) -> JobAnswer:
    return told(await asyncio.to_thread(jobs_of(state_of(request)).get, id))


@router.delete("/{id}", summary="Cancel a job", responses=answers(401, 404, 409))
async def cancel(request: Request, id: str, _: Edits) -> JobAnswer:
    """One that waits is gone at once, one at work within a moment. Nothing of it becomes visible."""
    return told(await asyncio.to_thread(jobs_of(state_of(request)).cancel, id))
