"""A run that serves metrics without a pipeline; and minutes of two days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crossline.basics.deadletter import DeadLetter
from crossline.basics.times import format_instant
from crossline.io.sinks.base import Delivery
from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.minute_file import MINUTE_MS, Minute, MinuteFigure, MinuteFile
from crossline.observe.watch.run_watch import RunWatch
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.runtime.work.totals import Totals
from crossline.settings.config import PipelineConfig
from crossline.settings.process.slo import SloSettings
from crossline.settings.watch import WatchSettings

STREAM = "payments"
WAITS_S = (*[12.0] * 98, 31.0, 100.0)  # of the alerts: far from the bounds of buckets, however slow a machine is


class Postgres:
    """A sink, as far as its name goes."""


class Kafka:
    """Another one."""


def alert(came_ms: float) -> dict[str, Any]:
    """On a record that came in then."""
    came = format_instant(round(came_ms))
    return {"rule_id": "a", "kind": "alert", "stream": STREAM, "rule_type": "velocity", "ingest_time": came}


@contextmanager
def run(
    name: str = "payments", now_s: float = 0.0, waits_s: Sequence[float] = WAITS_S, *, held: bool = False
) -> Iterator[RunWatch]:
    """One batch was delivered, at ``now_s`` on the wall clock. ``held``: a sink does not take the next one."""
    watch = RunWatch(WatchSettings(listen="127.0.0.1:0"), name, {STREAM: "wall"})
    sinks: Any = [Postgres(), Kafka()]
    watch.figures.name_sinks(sinks)
    watch._pipeline = SimpleNamespace(  # type: ignore[assignment]  # no other part is asked
        sinks=sinks, alive=True, standing=lambda: PipelineStatus(started=True, rules={"active": 3}), waiting=list
    )
    watch._alive = True
    watch._waiting = [SourceBacklog(STREAM, "records", 40)]
    dead = [DeadLetter(STREAM, reason, "", "p-0", number, b"") for number, reason in enumerate(DEAD)]
    body = {
        "records": 1_000,
        "by_stream": {STREAM: 1_000},
        "ingest_ms": {STREAM: round(now_s * 1000) - 900},
        "wall_ms": {"plan": 40.0, "tasks": 80.0, "collect": 10.0},
        "spent_ms": {"judge": 60.0, "log": 20.0},
    }
    alerts = [alert((now_s - each) * 1000) for each in waits_s]
    delivery = Delivery(name, 7, alerts, dead, figures=body)
    for sink in sinks:
        watch.figures.on_delivered(sink, delivery, 0.02)
    watch.batch(delivery, Totals(after_ms={"deliver": 20.0, "mark": 10.0}))
    if held:
        watch.figures.failed(sinks[1], OSError("it is away"))
    try:
        yield watch
    finally:
        watch.close()


DEAD = ("missing_field", "missing_field", "bad_time", "missing_field")
SLO = {
    "alert_latency": {"under": "250ms"},
    "lag": {"under": "5s"},
    "checkpoint": {"share": 10},
    "availability": {"percent": 99.95},
}


def promising(
    config: PipelineConfig, folder: Path, watch: RunWatch | None, slo: dict[str, Any] | None = None
) -> PipelineConfig:
    """``config`` with objectives, and the place where ``watch`` listens."""
    settings = SloSettings.model_validate({**(SLO if slo is None else slo), "path": str(folder / "slo.db")})
    place = None if watch is None else WatchSettings(listen=str(watch.place))
    return replace(config, slo=settings, watch=place)


def minutes(config: PipelineConfig, end: int) -> None:
    """Two days of minutes before ``end``: 100 batches of 100 ms, 9 ms of them checkpoint; the day before, of 80 ms."""
    assert config.slo is not None
    rows: list[MinuteFigure] = []
    for minute in range(end - 2 * 1440, end):
        today = minute >= end - 1440
        values = {
            "batches": 100.0,
            "batch_ms": 10_000.0 if today else 8_000.0,
            "checkpoint_ms": 900.0 if today else 400.0,
            "records": 120_000.0,
            "late": 372.0,
            "dead": 1.0 if today and minute % 240 == 0 else 0.0,
        }
        rows += [MinuteFigure(name, minute, value) for name, value in values.items()]
        rows.append(MinuteFigure("lag_ms", minute, 3_800.0 if minute % 720 == 13 else 900.0, peak=True))
        rows.append(MinuteFigure("alert_latency_ms", minute, 262.0 if minute % 720 == 13 else 212.0, peak=True))
    MinuteFile(Path(config.slo.path), config.name).add([], rows, end)


def promises(config: PipelineConfig, end: int, *, days: int = 30) -> None:
    """Counts of so many days before ``end``: in the last two hours the API failed 40 of 2,000 requests a minute."""
    assert config.slo is not None
    held = {each.name: each.held for each in objectives_of(config.slo)}
    rows: list[Minute] = []
    for minute in range(end - days * 1440, end):
        bad = 40 if minute >= end - 120 else int(minute % 4 == 0)
        given = {
            "alert_latency": (498, 500),
            "lag": (57 if minute % 120 == 0 else 60, 60),
            "checkpoint": (1, 1),
            "availability": (2_000 - bad, 2_000),
        }
        rows += [Minute(name, held[name], minute, *given[name]) for name in held if name in given]
    MinuteFile(Path(config.slo.path), config.name).add(rows, [], end)


def end_of(now_ms: int) -> int:
    """The minute that runs."""
    return now_ms // MINUTE_MS
