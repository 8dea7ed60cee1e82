"""``/v1/rules:thresholds``: what a rule would find at other thresholds, computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from crossline.serve.http.deps import Dependencies
from crossline.serve.http.jobs import Jobs
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.queries import only_known
from crossline.serve.http.writes.bodies import Body, RuleFile
from crossline.serve.http.writes.trials import INPUTS_MAX, accepted, bounds_in, file_in, inputs_of, labels_of


class Thresholds(Body):
    """A rule that draws a line, and the past."""

    rules: RuleFile = Field(description="A file with the one rule.")
    rule_id: str = Field(max_length=200, description="Its name.")
    inputs: dict[str, list[str]] | None = Field(
        default=None,
        max_length=INPUTS_MAX,
        description="Files by stream, relative to the pipeline's folder; else those of its sources of files or api.",
    )
    from_: str | None = Field(default=None, alias="from", max_length=40, description="Alerts from then on count.")
    to: str | None = Field(default=None, max_length=40, description="And those before then.")
    steps: int = Field(default=12, ge=1, le=30, description="How many thresholds on each side of the present one.")
    also: list[float] = Field(
        default=[], max_length=5, description="Thresholds besides, such as that of the live version."
    )


def threshold_routes(deps: Dependencies, jobs: Jobs) -> APIRouter:
    """The route of thresholds."""
    routes = APIRouter(tags=["rules"])

    @routes.post(
        "/v1/rules:thresholds",
        openapi_extra=needs("rules:draft"),
        summary="What a rule would find at other thresholds",
        status_code=202,
    )
    async def thresholds(request: Request, wanted: Thresholds, who: Asking) -> Any:
        """A job: alerts a day, and by labels frauds found, at each threshold around the present one."""
        only_known(request)
        files = {file_in("rules", wanted.rules): wanted.rules.checked().data}
        inputs = [] if wanted.inputs is None else await run_in_threadpool(inputs_of, deps, wanted.inputs)
        labels = await run_in_threadpool(labels_of, deps)
        more = bounds_in(wanted.from_, wanted.to) + ([] if labels is None else ["--labels", str(labels)])
        more += [part for each in wanted.also for part in ("--also", repr(each))]

        def arguments(folder: Path) -> list[str]:
            given = ["--rule", wanted.rule_id, "--pipeline", str(deps.pipeline), *inputs]
            rules = str(folder / file_in("rules", wanted.rules))
            return ["rules", "suggest-threshold", rules, *given, "--steps", str(wanted.steps), *more, "--json"]

        return accepted(jobs.start("thresholds", who.name, files, arguments))

    return routes
