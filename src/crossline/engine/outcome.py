"""A batch's outcome rows, brought to the driver and made into what sinks take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from pyspark.sql import DataFrame

from crossline.connectors.base import LateRecord
from crossline.core.alertjson import read_alerts
from crossline.core.pack import dead_from_json
from crossline.core.shard import StreamClocks
from crossline.core.values import DeadLetter
from crossline.engine.source.plan_source import FetchRaw
from crossline.engine.stopwatch import Spent


@dataclass(slots=True)
class Outcome:
    """Alerts (JSON values), dead letters, late records, figures of one batch, and how far streams have been read."""

    alerts: list[dict[str, Any]] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    late: list[LateRecord] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=lambda: {"records": 0, "retained": 0, "ingest_ms": {}})
    clocks: dict[str, StreamClocks] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)


def collect(frame: DataFrame, fetchers: Mapping[str, FetchRaw]) -> Outcome:
    """Run the batch and gather what came out; bytes of duplicates and late records are fetched from their source."""
    outcome = Outcome()
    table = frame.toArrow()
    for kind, body in zip(table.column("kind").to_pylist(), table.column("body").to_pylist(), strict=True):
        if kind == "alerts":
            outcome.alerts.extend(read_alerts(body))
        elif kind == "dead":
            outcome.dead.extend(dead_from_json(body))
        elif kind == "duplicates":
            outcome.dead.extend(_duplicate(p, fetchers) for p in orjson.loads(body))
        elif kind == "late":
            outcome.late.extend(_late(p, fetchers) for p in orjson.loads(body))
        elif kind == "spent":
            outcome.spent.add(body)
        else:
            _add(outcome, orjson.loads(body))
    return outcome


def _add(outcome: Outcome, more: dict[str, Any]) -> None:
    outcome.figures["records"] += more["records"]
    outcome.figures["retained"] += more["retained"]
    for stream, each in more["clocks"].items():
        clocks = StreamClocks(**each).after(outcome.clocks.get(stream))
        outcome.clocks[stream] = clocks
        outcome.figures["ingest_ms"][stream] = clocks.ingest_ms


def _duplicate(position: dict[str, Any], fetchers: Mapping[str, FetchRaw]) -> DeadLetter:
    return DeadLetter(
        stream=position["stream"],
        reason="duplicate_id",
        detail=f"id {position['record_id']!r} came before; the first record counts",
        partition=position["partition"],
        offset=position["offset"],
        raw=fetchers[position["stream"]](position["partition"], position["offset"]),
        record_id=position["record_id"],
    )


def _late(position: dict[str, Any], fetchers: Mapping[str, FetchRaw]) -> LateRecord:
    return LateRecord(
        stream=position["stream"],
        record_id=position["record_id"],
        event_ms=position["event_ms"],
        ingest_ms=position["ingest_ms"],
        lateness_ms=position["ingest_ms"] - position["event_ms"],
        partition=position["partition"],
        offset=position["offset"],
        raw=fetchers[position["stream"]](position["partition"], position["offset"]),
    )
