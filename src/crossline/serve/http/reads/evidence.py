"""``/v1/alerts/{id}/evidence`` and ``…/counterfactuals``: one alert judged again on the records of its key."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request

from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.jobs import ENDED, Job, Jobs
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.alerts import AlertId, alert_of
from crossline.serve.http.reads.history import LakeReads

ANSWER_WITHIN_S = 10.0
KEPT_MS = 60_000
Money = Annotated[str | None, Query(max_length=200, description="The field that holds an amount.")]


def explained_routes(deps: Dependencies, commands: Commands, jobs: Jobs, lake: LakeReads) -> APIRouter:
    """The routes that judge an alert again."""
    routes = APIRouter(tags=["alerts"])
    given = ["--pipeline", str(deps.pipeline), "--read-for", deps.waits.read_for]

    @routes.get(
        "/v1/alerts/{alert_id}/evidence",
        openapi_extra=needs("read:records"),
        summary="The window of an alert as a timeline, and its figures against their thresholds",
    )
    async def evidence(request: Request, alert_id: AlertId, money: Money = None) -> Any:
        """The figure at every record is the engine's own; ``missing`` names what could not be read."""
        only_known(request)
        whole = str((await alert_of(deps, lake, alert_id))["alert_id"])
        of = [] if money is None else ["--money", money]
        done = await commands.run(["alerts", "evidence", whole, *given, *of, "--json"], deps.waits.answer_s)
        return json_answer(orjson.loads(done.out.splitlines()[0]))

    @routes.get(
        "/v1/alerts/{alert_id}/counterfactuals",
        openapi_extra=needs("read:records"),
        summary="What would not have fired: the smallest changes under which the verdict turns",
        responses={202: {"description": "The search is still running: ask again after `Retry-After`."}},
    )
    async def counterfactuals(request: Request, alert_id: AlertId, who: Asking) -> Any:
        """Each change is judged by the engine on both sides of where it turns.

        Ask again where the answer is 202: the search goes on, and its result is kept for a minute.
        """
        only_known(request)
        whole = str((await alert_of(deps, lake, alert_id))["alert_id"])
        kind = f"counterfactuals:{whole}"
        job = _running(jobs, kind, who.name, deps.now_ms())
        if job is None:
            job = jobs.start(kind, who.name, {}, lambda _: ["alerts", "counterfactuals", whole, *given, "--json"])
        try:
            await asyncio.wait_for(job.over.wait(), ANSWER_WITHIN_S)
        except TimeoutError:
            return json_answer({**job.to_json(), "result": None}, 202, {"Retry-After": "1"})
        if job.state != "done":
            raise ProblemError(409, "refused", job.error or "the search was ended")
        return json_answer(job.result)

    return routes


def _running(jobs: Jobs, kind: str, who: str, now_ms: int) -> Job | None:
    """The latest search of the caller, if it goes on or ended within a minute."""
    for each in jobs.of(who):
        if each.kind == kind:
            fresh = each.ended_ms is None or now_ms - each.ended_ms < KEPT_MS
            return each if (each.state not in ENDED or each.state == "done") and fresh else None
    return None
