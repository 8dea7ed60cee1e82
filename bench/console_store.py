"""The stores of ``bench.console``: cases, and the pipeline's store with the same alerts.

A FOLDER keeps all of it, the data of PostgreSQL too: a second run reads it again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import yaml
from dev.services.postgres import LocalPostgres

from bench.cases import APART_MS, AT_ONCE, MADE_AT_ONCE, SETTINGS, START_MS, alerts, taken, worked
from bench.console_data import beside, lists, records
from bench.report import say
from crossline.io.postgres.sink import PostgresSink
from crossline.io.sinks.base import Delivery, Sink
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.intake.batches import CaseIntake
from crossline.serve.cases.service import CaseService
from crossline.settings.config import PipelineConfig, in_folder, load_pipeline

RULES, DELIVERED = 40, 10_000
RECORDS = 10_000  # of the first alerts there are records, which evidence reads
READY = "ready.json"
POLICY = """\
schema_version: 1
version: 1
fallback:
  - {decision: allow}
"""
SLO = {
    "path": "slo.db",
    "checkpoint": {"share": 10},
    "availability": {"percent": 99.95},
}
Kind = Literal["sqlite", "postgres"]
STREAM = """\
schema_version: 1
streams:
  payments:
    format: json
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account_id: string, card_hash: string, amount_cents: integer, currency: string}
  logins:
    format: json
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account_id: string}
"""


@dataclass(frozen=True, slots=True)
class Stock:
    """What was made. ``now_ms``: the instant of the last alert, which is now for the pages."""

    config: PipelineConfig
    desk: CaseService
    cases: int
    alerts: int
    now_ms: int


@contextmanager
def stock(folder: Path, count: int, kind: Kind) -> Iterator[PipelineConfig]:
    """Cases and the store of about ``count`` alerts, made where they are not there; the store runs meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with _sink(folder, kind) as sink:
        config = pipeline(folder, sink)
        if not (folder / READY).exists():
            _made(folder, config, count)
        store = _sink_of(config)
        store.open()  # as at the start of a run: a store of an older version is migrated
        store.close()
        records(folder, (orjson.loads(data) for _, data in alerts(0, RECORDS)))
        with opened(folder, config) as made:
            beside(folder, config, made.desk, _sink_of(config), made.now_ms)
        yield config


@contextmanager
def opened(folder: Path, config: PipelineConfig) -> Iterator[Stock]:
    """What was made, as a server opens it."""
    cases = Cases(folder / FILE)
    (found,) = cases.file.rows("SELECT count(*) AS cases, (SELECT count(*) FROM alerts) AS alerts FROM cases")
    now_ms = START_MS + found["alerts"] * APART_MS
    try:
        yield Stock(config, CaseService(cases, clock_ms=lambda: now_ms), found["cases"], found["alerts"], now_ms)
    finally:
        cases.close()


@contextmanager
def _sink(folder: Path, kind: Kind) -> Iterator[dict[str, Any]]:
    if kind == "sqlite":
        yield {"kind": "sqlite", "path": "crossline.db"}
        return
    with LocalPostgres(folder / "postgres") as server:
        given = {"host": server.host, "port": server.port, "user": server.user}
        yield {"kind": "postgres", **given, "password_file": str(server.password_file)}


def _made(folder: Path, config: PipelineConfig, count: int) -> None:
    """Fill the store while the cases are filled: PostgreSQL is a process of its own."""
    count -= count % AT_ONCE
    failed: list[BaseException] = []

    def fill() -> None:
        try:
            _filled(config, count)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    filling = threading.Thread(target=fill)
    filling.start()
    intake = CaseIntake(folder / FILE, SETTINGS)
    for first in range(0, count, DELIVERED):
        taken(intake, first, min(DELIVERED, count - first), MADE_AT_ONCE)
        say(f"{min(count, first + DELIVERED):,} of {count:,} alerts are in cases")
    intake.close()
    cases = Cases(folder / FILE)
    (found,) = cases.file.rows("SELECT count(*) AS n FROM cases")
    worked(CaseService(cases), found["n"])
    say(f"{found['n']:,} cases are worked on")
    cases.close()
    filling.join()
    if failed:
        raise failed[0]
    (folder / READY).write_text(f'{{"alerts": {count}}}\n')


def _filled(config: PipelineConfig, count: int) -> None:
    """As the pipeline's own sink writes, by COPY where it is PostgreSQL."""
    sink = _sink_of(config)
    sink.open()
    for number, first in enumerate(range(0, count, DELIVERED)):
        made = [_whole(orjson.loads(data)) for _, data in alerts(first, min(DELIVERED, count - first))]
        sink.deliver(Delivery(config.name, number, alerts=made, decisions=[_decision(each) for each in made[::5]]))
    sink.close()
    say(f"{count:,} alerts are in the store")


def _sink_of(config: PipelineConfig) -> Sink:
    (settings,) = config.sinks
    if settings.kind == "sqlite":
        return SqliteSink(Path(settings.path), config.name)  # type: ignore[attr-defined]  # of this kind
    return PostgresSink.from_settings(settings, config.name)  # type: ignore[arg-type]  # of this kind


def _whole(body: dict[str, Any]) -> dict[str, Any]:
    """The alert with all fields that stores have columns for."""
    at = body["event_time"]
    return {
        "schema_version": 1,
        "rule_type": "velocity",
        "score": 40,
        "action": "review",
        "operator": ">=",
        "value": 6,
        "threshold": 5,
        **dict.fromkeys(("ingest_time", "window_start", "window_end", "detected_at"), at),
        "corrects": None,
        "delivered_at": None,
        "evidence": {"count": 6, "record_ids": [body["record_id"]]},
        **body,
    }


def _decision(alert: dict[str, Any]) -> dict[str, Any]:
    """What was decided about its record."""
    named = {name: alert[name] for name in ("rule_id", "rule_version", "action", "score", "alert_id", "message")}
    return {
        "schema_version": 1,
        "decision_id": f"d{alert['alert_id']}",
        "kind": "decision",
        "revision": 0,
        "decision": "review",
        "score": 40,
        "policy_version": 1,
        **{name: alert[name] for name in ("stream", "record_id", "event_time", "ingest_time")},
        "reasons": [named],
        "rules_digest": "0" * 32,
        "decided_at": alert["detected_at"],
        "answered": "exact",
        "degraded": [],
    }


def pipeline(folder: Path, sink: dict[str, Any]) -> PipelineConfig:
    """The pipeline, with as many rules as the alerts are of; its rule log is as if it had run."""
    body = {
        "schema_version": 1,
        "name": "bench",
        "streams": "stream.yaml",
        "sources": {name: {"kind": "files", "path": f"in/{name}"} for name in ("payments", "logins")},
        "rules": {"kind": "directory", "path": "rules"},
        "lists": {"kind": "directory", "path": "lists"},
        "sinks": [sink],
        "slo": SLO,
        "policy": "policy.yaml",
        "serve": {"listen": "127.0.0.1:8080", "path": "."},
    }
    text = yaml.safe_dump(body)
    lists(folder)
    (folder / "pipeline.yaml").write_text(text)
    (folder / "stream.yaml").write_text(STREAM)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "rules").mkdir(exist_ok=True)
    for number in range(RULES):
        name = f"rule_{number:02}"
        (folder / "rules" / f"{name}.yaml").write_text(yaml.safe_dump(_rule(name)))
    config = in_folder(
        load_pipeline(text, "pipeline.yaml", {"stream.yaml": STREAM, "policy.yaml": POLICY}.__getitem__), str(folder)
    )
    if not (folder / READY).exists():
        log = DirectoryRuleLog(config.rules.path, config.name, config.streams, list)
        log.start(START_MS)
        log.close()
    return config


def _rule(name: str) -> dict[str, Any]:
    return {
        "rule_id": name,
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "owner": "fraud",
        "group_by": "account_id",
        "aggregation_type": "count",
        "aggregation_threshold": 5,
        "window": "10m",
        "description": "{account_id} sent {count} payments within {window}, at least 5 are asked for",
    }
