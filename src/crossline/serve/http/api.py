"""``create_api``: the reads and writes of the API, as a FastAPI app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request

from crossline.serve.approvals.file import ApprovalFile
from crossline.serve.health.reader import RuleHealthReader
from crossline.serve.http.cases.actions import act_routes
from crossline.serve.http.cases.queue import queue_routes
from crossline.serve.http.cases.suppressions import suppression_routes
from crossline.serve.http.cases.views import view_routes
from crossline.serve.http.commands import Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.events.routes import Listeners, event_routes
from crossline.serve.http.events.stream import StreamLimits
from crossline.serve.http.guard import Guard
from crossline.serve.http.idempotency import IdempotentWrites, ResponseStore
from crossline.serve.http.jobs import Jobs
from crossline.serve.http.openapi import document_of
from crossline.serve.http.principals import needs, principal_of
from crossline.serve.http.problems import install
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.about import about_routes
from crossline.serve.http.reads.alerts import alert_routes
from crossline.serve.http.reads.audit import audit_routes
from crossline.serve.http.reads.dead_letters import dead_routes
from crossline.serve.http.reads.decisions import decision_routes
from crossline.serve.http.reads.entities import entity_routes
from crossline.serve.http.reads.evidence import explained_routes
from crossline.serve.http.reads.health import health_routes
from crossline.serve.http.reads.history import LakeReads
from crossline.serve.http.reads.links import link_routes
from crossline.serve.http.reads.pipeline_health import running_routes
from crossline.serve.http.reads.rules import rule_routes
from crossline.serve.http.reads.search import search_routes
from crossline.serve.http.writes.approvals import approval_routes, draft_routes
from crossline.serve.http.writes.cases import case_routes, label_routes
from crossline.serve.http.writes.forms import form_routes
from crossline.serve.http.writes.holds import hold_routes
from crossline.serve.http.writes.lists import list_routes
from crossline.serve.http.writes.publishing import finish_left
from crossline.serve.http.writes.rules import rule_writes
from crossline.serve.http.writes.thresholds import threshold_routes
from crossline.serve.http.writes.trials import job_routes, trial_routes

ANSWERS = "idempotency.db"
JOBS = "jobs"


def create_api(
    deps: Dependencies, extra: Mapping[str, Mapping[str, Any]] | None = None, bounds: StreamLimits | None = None
) -> FastAPI:
    """The app with all routes but the hot one, inside a running event loop or outside.

    ``extra``: path items of operations that other apps answer, for the OpenAPI file, by path. ``bounds``: of
    clients that listen. Who asks stands in ``scope["state"]["principal"]``, put there by the middleware around it.
    ``app.state.health`` has the health of rules, ``app.state.lake`` reads the lake. ``app.state.finish()`` publishes
    what was approved and left.
    ``app.state.close()`` ends jobs and closes files: the app's own lifespan calls it, and who mounts the app does.

    Raises sqlite3.OperationalError where ``deps.path`` cannot be written.
    """
    commands = Commands(lake=deps.config.lake is not None)
    lake = LakeReads(deps, commands)
    jobs = Jobs(deps.path / JOBS, deps.now_ms, deps.jobs_running_max)
    answers = ResponseStore(deps.path / ANSWERS, deps.now_ms)
    kept = ApprovalFile(deps.path)
    health = RuleHealthReader(deps, kept)

    async def close() -> None:
        await jobs.close()
        await commands.close()
        answers.close()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await close()

    app = FastAPI(title="crossline", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.close, app.state.jobs, app.state.health, app.state.lake = close, jobs, health, lake
    app.state.finish = partial(finish_left, deps, commands, kept)
    app.router.redirect_slashes = False
    app.include_router(about_routes(deps))
    for routes in _asked(deps, commands, jobs, kept, health, bounds, lake):
        app.include_router(routes, dependencies=[Depends(principal_of)])
    _describe(app, extra or {})
    install(app)
    app.add_middleware(IdempotentWrites, answers=answers)
    app.add_middleware(Guard, body_max=deps.body_max)
    return app


def _asked(
    deps: Dependencies,
    commands: Commands,
    jobs: Jobs,
    kept: ApprovalFile,
    health: RuleHealthReader,
    bounds: StreamLimits | None,
    lake: LakeReads,
) -> tuple[APIRouter, ...]:
    """The routes that ask who asks."""
    return (
        audit_routes(deps),
        running_routes(deps),
        alert_routes(deps, lake),
        explained_routes(deps, commands, jobs, lake),
        decision_routes(deps, lake),
        *_finding(deps, lake),
        hold_routes(deps, commands),
        label_routes(deps),
        act_routes(deps),
        queue_routes(deps),
        case_routes(deps),
        view_routes(deps),
        suppression_routes(deps),
        list_routes(deps),
        rule_writes(deps, commands, kept),
        form_routes(deps),
        trial_routes(deps, jobs),
        threshold_routes(deps, jobs),
        draft_routes(deps, kept),
        approval_routes(deps, commands, kept),
        rule_routes(deps),
        health_routes(health),
        job_routes(deps, jobs, kept),
        event_routes(deps, Listeners(), bounds),
    )


def _finding(deps: Dependencies, lake: LakeReads) -> Iterator[APIRouter]:
    """What is looked up. Links come before entities, whose value takes any rest of an address."""
    yield from (link_routes(deps), entity_routes(deps, lake), search_routes(deps), dead_routes(deps))


def _describe(app: FastAPI, extra: Mapping[str, Mapping[str, Any]]) -> None:
    @cache
    def document() -> dict[str, Any]:
        return document_of(app, extra)

    @app.get(
        "/v1/openapi.json",
        tags=["server"],
        openapi_extra=needs(""),
        dependencies=[Depends(principal_of)],
        summary="This API, as OpenAPI 3.1",
    )
    async def openapi(request: Request) -> Any:
        """The document that clients are made from."""
        only_known(request)
        return json_answer(document())

    app.openapi = document  # type: ignore[method-assign]
