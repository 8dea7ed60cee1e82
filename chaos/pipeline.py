"""The pipeline under test: one topic of payments, rules of several kinds, a policy, and sinks of every kind.

All records of a key lie in one partition, so no answer depends on the order in which partitions are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Body = dict[str, Any]

NAME = "drill"
STREAM = "payments"
TOPIC, ALERTS, DEAD, DECISIONS = "drill-payments", "drill-alerts", "drill-dead", "drill-decisions"
PARTITIONS = 2
ID, INGEST = "id", "ingest_ms"
WEBHOOK_KEY_ENV = "CHAOS_WEBHOOK_KEY"
# Up to the first a record comes in time, and is decided about; beyond the second it is late.
DEFAULTS = {"watermark_delay": "5s", "allowed_lateness": "20s"}
IN_TIME_MS, ALLOWED_LATENESS_MS = 5_000, 20_000

_OF_ACCOUNT: Body = {"source_topic": STREAM, "group_by": "account", "version": 1}
RULES: list[Body] = [
    {
        **_OF_ACCOUNT,
        "rule_id": "burst",
        "rule_type": "velocity",
        "aggregation_type": "count",
        "window": "30s",
        "aggregation_threshold": 6,
        "action": "review",
        "score": 30,
    },
    {
        **_OF_ACCOUNT,
        "rule_id": "spend",
        "rule_type": "velocity",
        "aggregation_type": "sum",
        "aggregation_field": "amount",
        "window": "2m",
        "operator": ">",
        "aggregation_threshold": 60_000,
        "cooldown": "30s",
        "action": "step_up",
        "score": 50,
    },
    {
        **_OF_ACCOUNT,
        "rule_id": "again",
        "rule_type": "velocity",
        "aggregation_type": "distinct_count",
        "aggregation_field": "kind",
        "window": "10s",
        "aggregation_threshold": 4,
        "late_policy": "reevaluate",
        "score": 20,
    },
    {
        **_OF_ACCOUNT,
        "rule_id": "tested",
        "rule_type": "sequence",
        "steps": [
            {"name": "small", "conditions": [{"field": "amount", "operator": "<", "value": 150}]},
            {"name": "large", "conditions": [{"field": "amount", "operator": ">=", "value": 15_000}]},
        ],
        "within": "20s",
        "action": "block",
        "score": 90,
    },
    {
        "rule_id": "large",
        "version": 1,
        "rule_type": "threshold",
        "source_topic": STREAM,
        "conditions": [{"field": "amount", "operator": ">=", "value": 60_000}],
        "action": "review",
        "score": 40,
    },
]
POLICY: Body = {
    "schema_version": 1,
    "version": 1,
    "bands": [
        {"from": 20, "decision": "review"},
        {"from": 60, "decision": "step_up"},
        {"from": 90, "decision": "block"},
    ],
}
# By what the API answers where nothing can be judged in time.
FALLBACK: list[Body] = [{"when": "amount > 30000", "decision": "review"}, {"decision": "allow"}]
# How old a replica's state may be: beyond what a batch takes on two cores that do all of the drill.
BEHIND_MAX = "3s"
SERVED = "out/serve"
SIGNING_KEY, PUBLIC_KEY = "signing.pem", "signing.pub.pem"
_FIELDS = {ID: "string", "account": "string", "amount": "integer", "kind": "string", "event_time": "integer"}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the pipeline finds its services; ``redis`` and ``postgres``: the addresses for sinks of these kinds.

    With a ``registry`` records are Avro, else JSON; ``store``: the URI of the checkpoint, else it is a folder.
    ``api``: where the decision API listens, if it is a part of the drill.
    """

    brokers: str
    redis: Mapping[str, Any] | None = None
    postgres: Mapping[str, Any] | None = None
    webhook: str | None = None
    registry: str | None = None
    store: str | None = None
    api: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The variable settings of the pipeline.

    ``reevaluates``: all rules that look at more than one record judge again after late records.
    """

    master: str = "local[2]"
    trigger: str = "0s"
    max_records: int = 20_000
    reevaluates: bool = False
    source: Mapping[str, Any] = field(default_factory=dict)


def stream_of(form: str = "json", *, with_ingest: bool = False) -> Body:
    """The stream; ``with_ingest``: with the broker's time as a field, for a replay from files."""
    body: Body = {
        "format": form,
        "id": ID,
        "event_time": {"field": "event_time", "unit": "ms"},
        "fields": dict(_FIELDS),
    }
    if with_ingest:
        body["ingest_time"] = {"field": INGEST, "unit": "ms"}
        body["fields"][INGEST] = "integer"
    return body


def reevaluating(rules: Iterable[Body]) -> list[Body]:
    """The same rules, of which those of more than one record judge again."""
    again = {"late_policy": "reevaluate"}
    return [rule if rule["rule_type"] == "threshold" else {**rule, **again} for rule in rules]


def sinks_of(addresses: Addresses) -> list[Body]:
    """One of each kind that has an address."""
    kafka: Body = {"kind": "kafka", "brokers": addresses.brokers, "topic": ALERTS, "dead_letter_topic": DEAD}
    kafka["topics"] = [DECISIONS]
    sinks: list[Body] = [
        kafka,
        {
            "kind": "jsonl",
            "path": "out/alerts.jsonl",
            "dead_letters": "out/dead.jsonl",
            "decisions": "out/decisions.jsonl",
        },
        {"kind": "sqlite", "path": "out/store.db"},
    ]
    if addresses.redis is not None:
        sinks.append({"kind": "redis", "stream_max": 10_000_000, **addresses.redis})
    if addresses.postgres is not None:
        sinks.append({"kind": "postgres", **addresses.postgres})
    if addresses.webhook is not None:
        key = {"password_env": WEBHOOK_KEY_ENV}
        sinks.append({"kind": "webhook", "url": addresses.webhook, "parked": "out/parked.jsonl", **key})
    return sinks


def write_pipeline(root: Path, addresses: Addresses, settings: Settings) -> Path:
    """The project in ``root``; the path of its pipeline file."""
    (root / "rules").mkdir(parents=True, exist_ok=True)
    _write(root / "rules" / "rules.yaml", reevaluating(RULES) if settings.reevaluates else RULES)
    with_api = addresses.api is not None
    _write(root / "policy.yaml", {**POLICY, "fallback": FALLBACK} if with_api else POLICY)
    source = {"kind": "kafka", "brokers": addresses.brokers, "topic": TOPIC, **settings.source}
    if with_api:
        source["key"] = "account"  # as the other senders key
    if addresses.registry is not None:
        source["registry"] = {"url": addresses.registry}
    body = {
        "schema_version": 1,
        "name": NAME,
        "streams": {STREAM: stream_of("json" if addresses.registry is None else "avro")},
        "sources": {STREAM: source},
        "rules": {"kind": "directory", "path": "rules"},
        "sinks": sinks_of(addresses),
        "defaults": DEFAULTS,
        "policy": "policy.yaml",
        "decisions": {"emit": "all", "path": "out/decided", "sink_topic": DECISIONS},
        "engine": {
            "trigger": settings.trigger,
            "shards": 4,
            "checkpoint": addresses.store or "out/checkpoint",
            "master": settings.master,
            "max_batch_records": settings.max_records,
            "partition_lag": "2m",
        },
    }
    if with_api:
        body["serve"] = {
            "listen": addresses.api,
            "open": True,
            "timeout": "1s",
            "behind_max": BEHIND_MAX,
            "path": SERVED,
            "signing_key_file": SIGNING_KEY,
        }
    return _write(root / "pipeline.yaml", body)


def write_replay(root: Path, log: Path, *, name: str = f"{NAME}-replay") -> Path:
    """The same over files, for a backtest of what was produced; ``log``: its records in ingest order.

    ``name``: of the pipeline, which is the drilled one's where its rule log is to be found.
    """
    body = {
        "schema_version": 1,
        "name": name,
        "streams": {STREAM: stream_of(with_ingest=True)},
        "sources": {STREAM: {"kind": "files", "path": str(log)}},
        "rules": {"kind": "directory", "path": "rules"},
        "sinks": [{"kind": "jsonl", "path": "replay/alerts.jsonl"}],
        "defaults": DEFAULTS,
        "policy": "policy.yaml",
        "decisions": {"emit": "all", "path": "replay/decided"},
        "engine": {"partition_lag": "2m"},
    }
    return _write(root / f"{name}.yaml", body)


def _write(path: Path, body: Any) -> Path:
    path.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    return path
