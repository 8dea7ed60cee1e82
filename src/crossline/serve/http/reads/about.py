"""Whether the server lives, whether it can answer, and what it is."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Depends, Request

from crossline.serve.http.deps import Dependencies
from crossline.serve.http.principals import needs, principal_of
from crossline.serve.http.queries import json_answer, only_known

API_VERSION = "v1"


def about_routes(deps: Dependencies) -> APIRouter:
    """The routes that say how the server is."""
    routes = APIRouter(tags=["server"])

    @routes.get("/healthz", summary="Whether the server lives")
    async def healthz(request: Request) -> Any:
        """Needs no key, and has nothing else."""
        only_known(request)
        return json_answer({"ok": True})

    @routes.get(
        "/readyz", summary="Whether a replica answers", responses={503: {"description": "No replica answers yet."}}
    )
    async def readyz(request: Request) -> Any:
        """200 once a replica answers, else 503; how far behind it is."""
        only_known(request)
        found = await deps.ready()
        return json_answer({"ok": found.ok, **found.details}, 200 if found.ok else 503)

    @routes.get(
        "/v1/version",
        openapi_extra=needs(""),
        dependencies=[Depends(principal_of)],
        summary="What serves, and which pipeline",
    )
    async def which(request: Request) -> Any:
        """The version of crossline, of the API, and the pipeline's name and streams."""
        only_known(request)
        streams = {
            name: {"id": spec.id, "event_time": spec.event_time.field} for name, spec in deps.config.streams.items()
        }
        policy = None if deps.config.policy is None else deps.config.policy.version
        body = {"crossline": version("crossline"), "api": API_VERSION, "pipeline": deps.config.name}
        return json_answer({**body, "streams": streams, "policy_version": policy})

    return routes
