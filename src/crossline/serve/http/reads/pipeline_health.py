"""``/v1/objectives`` and ``/v1/health/pipeline``: what is promised and kept, and how the pipeline runs."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from crossline.observe.objectives.report import report
from crossline.observe.run_health.report import running_report
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.principals import needs
from crossline.serve.http.queries import json_answer, only_known


def running_routes(deps: Dependencies) -> APIRouter:
    """Both routes."""
    routes = APIRouter(tags=["server"])

    @routes.get("/v1/objectives", openapi_extra=needs("read:alerts"), summary="Objectives, and what is left of budgets")
    async def objectives(request: Request) -> Any:
        """Each over 1 h, 24 h and 30 d: kept, missed, or null where that is not known; as ``crossline slo --json``."""
        only_known(request)
        return json_answer(await asyncio.to_thread(report, deps.config, deps.now_ms()))

    @routes.get("/v1/health/pipeline", openapi_extra=needs("read:alerts"), summary="How the pipeline runs")
    async def health(request: Request) -> Any:
        """Each figure with its limit and the day before; ``state`` is unknown where no run answers."""
        only_known(request)
        return json_answer(await asyncio.to_thread(running_report, deps.config, deps.now_ms(), deps.replicas))

    return routes
