"""All that is answered, as one ASGI app: the API (access, then decisions, then everything else) beside the console."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.observe.objectives.metrics import ObjectiveCollector
from crossline.observe.run_health.report import ReplicaLag
from crossline.observe.watch.exposition import Collector
from crossline.serve.access.audit import AuditLog
from crossline.serve.access.guard import guarded
from crossline.serve.app import casework
from crossline.serve.app.audit_writes import AuditMiddleware, without_values
from crossline.serve.app.events import AllEvents
from crossline.serve.app.hot import HotRoutes
from crossline.serve.app.openapi_hot import HOT_PATHS
from crossline.serve.app.read_only import ReadOnly
from crossline.serve.app.split import Split
from crossline.serve.app.store_reads import StoredCases
from crossline.serve.assembly import Api
from crossline.serve.console.app import Console
from crossline.serve.console.dependencies import parts_of
from crossline.serve.console.warmup import warm
from crossline.serve.dead_letters.resend import DeadLetters, Resender
from crossline.serve.dead_letters.resend_log import FILE as RESENT
from crossline.serve.dead_letters.resend_log import ResentFile
from crossline.serve.dead_letters.targets import close_own, ways_of
from crossline.serve.health.prediction_events import FILE as PREDICTED
from crossline.serve.health.prediction_events import PredictionWatch
from crossline.serve.health.reader import RuleHealthReader
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies, Readiness
from crossline.serve.http.problems import install
from crossline.serve.metrics.exposition import ApiCollector, ApiStatus
from crossline.serve.metrics.figures import RequestCounter
from crossline.serve.metrics.rules import RuleGauges
from crossline.serve.replica.replicas import Replicas
from crossline.serve.revisions.revision_log import NumberedLog

AUDIT = "audit"

log = get_logger(__name__)


def app_of(api: Api, pipeline: Path) -> tuple[Any, Callable[[], Awaitable[None]], RuleHealthReader]:
    """The app over the parts that run, what ends what only it has, and how rules do; inside a running event loop."""
    settings = api.settings

    async def ready() -> Readiness:
        lag = api.replicas.lag()
        return Readiness(lag.ready, {"batch": lag.batch, "behind_ms": lag.ms})

    audit, desk = AuditLog(api.path / AUDIT, wall_clock_ms), casework.of(api)
    predicted = NumberedLog(api.path / PREDICTED)
    resent = ResentFile(api.path / RESENT)
    # A replica elsewhere writes nothing, and sends nothing again.
    ways = ways_of(api.config, api.logs) if api.replica_of is None else {}
    resending = Resender(api.config.streams, ways, resent, wall_clock_ms) if api.replica_of is None else None
    dead = DeadLetters(resent, resending)
    deps = Dependencies(
        pipeline=pipeline,
        now_ms=api.clock_ms,
        config=api.config,
        path=api.path,
        decisions=api.answers,
        cases=StoredCases(desk.desk),
        desk=desk.desk,
        events=AllEvents(api.reader, api.revised, desk.changes, predicted),
        figures=api.replicas,
        dead=dead,
        audit=audit.path,
        replicas=lambda: replicas_of(api.replicas),
        ready=ready,
    )
    rest = create_api(deps, extra=HOT_PATHS)
    watching = asyncio.ensure_future(PredictionWatch(rest.state.health.report, predicted).run())
    others: Any = AuditMiddleware(rest, audit, partial(without_values, api.config.streams))
    if api.replica_of is not None:
        others = ReadOnly(others)
    app = Starlette(routes=[Mount("/", app=others)])
    install(app)
    hot = HotRoutes(api.decisions, settings.mode, settings.timeout, app)

    access = guarded(hot, settings)
    parts = parts_of(deps, settings, others, audit, access.charge, lake=rest.state.lake) if settings.console else None
    console = None if parts is None else Console(parts)
    warming = None if parts is None else asyncio.create_task(warm(parts))

    # Once it answers: a broker may not.
    left = None if api.replica_of is not None else asyncio.create_task(rest.state.finish())

    async def close() -> None:
        await _end_task(warming, "what pages need was not read beforehand")
        await _end_task(left, "what was approved before was not looked at to its end")
        if console is not None:
            await console.close()
        await _end_task(watching, "predictions were not watched to the end")
        await rest.state.close()
        await desk.close()
        await close_own(ways, api.logs)
        resent.close()

    whole: Any = access if console is None else Split(access, console)
    return RequestCounter(whole, api.figures), close, rest.state.health


async def _end_task(task: asyncio.Future[Any] | None, otherwise: str) -> None:
    """End ``task``; the log has ``otherwise``, and why, where it had failed before."""
    if task is None:
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(otherwise, error=str(error))


def replicas_of(replicas: Replicas) -> list[ReplicaLag]:
    """How far behind each of them is."""
    return [
        ReplicaLag(number, None, None, ready=False)
        if lag.batch < 0
        else ReplicaLag(number, lag.batch, lag.ms, lag.ready)
        for number, lag in enumerate(replicas.lags())
    ]


def collectors_of(api: Api, health: RuleHealthReader) -> list[Collector]:
    """The figures of the parts that run, and what objectives count of them."""
    counts = api.counts
    counted = [] if counts is None else [ObjectiveCollector(api.config.name, counts.recorder)]
    return [_collector_of(api, health), *counted]


def _collector_of(api: Api, health: RuleHealthReader) -> ApiCollector:
    def standing() -> ApiStatus:
        replicas = api.replicas
        judged = (replicas.calls, replicas.spent_ms / 1_000)
        try:
            outbox = api.outbox.count()
        except sqlite3.Error as error:
            log.warning("the outbox cannot be read", error=str(error))
            outbox = None
        return ApiStatus(replicas.lag(), replicas.laid_over, api.settling.waiting, outbox, judged, replicas.lost)

    return ApiCollector(api.config.name, api.figures, standing, RuleGauges(health.report))
