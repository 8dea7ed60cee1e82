"""The naive twin of ``composite``: each hit of its members is judged by all hits of its entity before it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .composed import _BETWEEN
from .naive import NAMESPACE, Hit, canonical
from .rule_versions import duration_ms
from .strategies import Body, Record

Place = tuple[Any, ...]


def composite_hits(rule: Body, hits: Sequence[tuple[Place, Hit, Record]]) -> list[Hit]:
    """The hits of ``rule`` on ``hits`` of its members, each with its place in their order and its record.

    A record that several members hit is one hit: the last of them has seen most.
    """
    weights = rule.get("weights", {})
    line, window_ms = rule.get("threshold", rule.get("at_least", 1)), duration_ms(rule["window"])
    body: dict[tuple[str, str], Hit] = {}
    before: dict[str, tuple[bool, int]] = {}
    ordered = sorted(hits, key=lambda each: each[0])
    for number, (_, hit, record) in enumerate(ordered):
        entity, at = record.get(rule["join_key"]), record["_event_ms"]
        if entity is None:
            continue
        seen = [
            each
            for each in ordered[: number + 1]
            if each[2].get(rule["join_key"]) == entity and at - window_ms < each[2]["_event_ms"] <= at
        ]
        value = sum(weights.get(member, 1) for member in {each.rule_id for _, each, _ in seen})
        was, last_at = before.get(entity, (False, 0))
        if value >= line and (rule.get("emit") == "every" or not was or last_at <= at - window_ms):
            body.pop((entity, hit.record_id), None)
            body[entity, hit.record_id] = _hit(
                rule, hit, {rule["join_key"]: entity}, value, [each for _, each, _ in seen]
            )
        before[entity] = value >= line, at
    return list(body.values())


def _hit(rule: Body, hit: Hit, key: Mapping[str, Any], value: Any, seen: Sequence[Hit]) -> Hit:
    named = "\x1f".join((rule["rule_id"], str(rule["version"]), canonical(dict(key)), hit.record_id))
    return replace(
        hit,
        alert_id=str(uuid.uuid5(NAMESPACE, named)),
        rule_id=rule["rule_id"],
        version=rule["version"],
        key=dict(key),
        value=value,
        count=len(seen),
        evidence=tuple(f"{each.alert_id}{_BETWEEN}{each.record_id}" for each in seen),
        figures={},
        fields={},
    )


def composite_hit_values(hit: Hit) -> tuple[Any, ...]:
    """What its alert must say."""
    ids = tuple(tuple(each.split(_BETWEEN)) for each in hit.evidence)
    return hit.rule_id, hit.record_id, hit.alert_id, float(hit.value or 0), hit.count, ids


def composite_alert_values(alert: Mapping[str, Any]) -> tuple[Any, ...]:
    """The same of an alert."""
    evidence = alert["evidence"]
    ids = tuple(zip(evidence["hits"], evidence["record_ids"], strict=True))
    return alert["rule_id"], alert["record_id"], alert["alert_id"], float(alert["value"]), evidence["count"], ids
