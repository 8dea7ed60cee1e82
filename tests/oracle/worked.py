"""Short ways to write rules, clicks and what the twin says of them, for examples worked by hand."""

from __future__ import annotations

from typing import Any

from .naive import NaiveResult, naive_detect


def rule(**changes: Any) -> dict[str, Any]:
    """Count per user in 10 s >= 3, unless changed. A change to None leaves the field out."""
    body = {
        "rule_id": "r",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "clicks",
        "group_by": "user",
        "window": "10s",
        "aggregation_type": "count",
        "aggregation_threshold": 3,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def click(event_ms: int, *, ingest_ms: int | None = None, id_: str | None = None, **fields: Any) -> dict[str, Any]:
    """A record of user u1 named after its event time, ingested when it happened by default."""
    times = {"_event_ms": event_ms, "_ingest_ms": event_ms if ingest_ms is None else ingest_ms}
    return {"user": "u1", **fields, "_id": id_ or f"t{event_ms}", **times}


def detect(body: dict[str, Any], *records: dict[str, Any], **options: Any) -> NaiveResult:
    return naive_detect([body], records, **options)


def ids(result: NaiveResult) -> list[str]:
    return [hit.record_id for hit in result.hits]


def values(body: dict[str, Any], *records: dict[str, Any]) -> list[tuple[str, float | int | None]]:
    """Record id and value of each hit."""
    return [(hit.record_id, hit.value) for hit in naive_detect([body], records).hits]


EVERY: dict[str, Any] = {"emit": "every", "aggregation_threshold": 0}  # every judged record shows its value
