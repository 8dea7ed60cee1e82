"""The naive twin of ``hold``: at each record all alerts of before are looked through for those that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .conditions import field_value
from .naive import Hit, NaiveResult
from .rule_versions import DEFAULTS, Rule, duration_ms, read_snapshot

Release = tuple[str, Mapping[str, Any], int]  # of which rule and key, and from which ingest time on


def naive_holds(
    bodies: Sequence[Mapping[str, Any]],
    result: NaiveResult,
    records: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, str],
    releases: Sequence[Release] = (),
) -> list[list[Hit]]:
    """For each of ``records`` the alerts that hold it: of each rule the last one.

    The records are in ingest order, ``result`` is the result for them, and no rule has ``late_policy: reevaluate``.
    """
    standing = {**DEFAULTS, **defaults}
    hold_of = {(b["rule_id"], b["version"]): b for b in bodies if "hold" in b and b.get("emit_to_sink", True)}
    snapshot = [rule for rule in read_snapshot(bodies, defaults) if rule.status == "active"]
    found: list[list[Hit]] = []
    for position, record in enumerate(records):
        last: dict[str, tuple[Any, Hit]] = {}
        for hit in result.hits:
            body = hold_of.get((hit.rule_id, hit.version))
            if not hit.key:  # of a record without the rule's key: it holds no key
                continue
            if body is None or hit.kind != "alert" or _came(hit, records) >= (record["_ingest_ms"], position):
                continue
            mine = [rule for rule in snapshot if (rule.rule_id, rule.version) == (hit.rule_id, hit.version)]
            at_ms, now_ms = (
                _clock_ms(mine[0], hit, records),
                record["_event_ms" if mine[0].event_time else "_ingest_ms"],
            )
            lasts_ms = duration_ms(body["hold"])
            if not at_ms <= now_ms < at_ms + lasts_ms:
                continue
            if record["_ingest_ms"] - record["_event_ms"] > mine[0].allowed_lateness_ms:
                continue
            if {name: field_value(record, name) for name in hit.key} != dict(hit.key):
                continue
            # It goes on where another version has replaced it, and not where none of the rule is in force.
            over_ms = max(rule.until_ms for rule in mine) + lasts_ms + duration_ms(standing["watermark_delay"])
            if record["_ingest_ms"] >= over_ms or not _in_force(snapshot, hit.rule_id, record["_ingest_ms"]):
                continue
            if _released(releases, hit, record["_ingest_ms"], _came(hit, records)[0]):
                continue
            rank = hit.version, at_ms, _came(hit, records)
            if hit.rule_id not in last or last[hit.rule_id][0] < rank:
                last[hit.rule_id] = rank, hit
        found.append([hit for _, hit in last.values()])
    return found


def _came(hit: Hit, records: Sequence[Mapping[str, Any]]) -> tuple[float, int]:
    """When it came: its record, or, of one that is known later, when that was."""
    if hit.known_ms is not None:
        return hit.known_ms, -1
    return records[hit.position]["_ingest_ms"], hit.position


def _clock_ms(rule: Rule, hit: Hit, records: Sequence[Mapping[str, Any]]) -> int:
    if hit.known_ms is not None:
        return hit.known_ms
    return int(records[hit.position]["_event_ms" if rule.event_time else "_ingest_ms"])


def _in_force(snapshot: Sequence[Rule], rule_id: str, ingest_ms: int) -> bool:
    return any(rule.rule_id == rule_id and rule.from_ms <= ingest_ms < rule.until_ms for rule in snapshot)


def _released(releases: Sequence[Release], hit: Hit, ingest_ms: int, came_ms: float) -> bool:
    mine = (at_ms for rule_id, key, at_ms in releases if rule_id == hit.rule_id and dict(key) == dict(hit.key))
    return any(came_ms < at_ms <= ingest_ms for at_ms in mine)
