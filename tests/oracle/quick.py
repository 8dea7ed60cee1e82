"""Count, sum and average rules of plain windows, each key's records in a sorted list: fast enough for real files.

Less is understood than in ``naive``, which checks it: windows of ``(]`` on event time, no cooldown, no lateness that
matters, no id twice, and conditions that compare one field with one text for equality.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from .conditions import ORDERINGS
from .naive import EVIDENCE_IDS_MAX, Hit, Key, alert_id_of, running_max_ingest
from .rule_versions import Rule, read_snapshot

# Clock, place, aggregated value, id: sorted as records stand in a window.
Entry = tuple[int, int, int, str]


def quick_detect(rules: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]]) -> list[Hit]:
    """Hits on ``records``, in their order, rule by rule. A record has its fields, ``_id`` and ``_event_ms``."""
    return [hit for rule in read_snapshot(rules, {}) for hit in _hits(rule, records)]


def _hits(rule: Rule, records: Sequence[Mapping[str, Any]]) -> list[Hit]:
    _check(rule)
    entries: dict[tuple[Any, ...], list[Entry]] = defaultdict(list)
    crossed: dict[tuple[Any, ...], tuple[bool, int]] = {}
    hits = []
    for place, record in enumerate(records):
        if any(record[leaf["field"]] != leaf["value"] for leaf in rule.conditions or []):
            continue
        key, now_ms = tuple(record[name] for name in rule.group_by), record["_event_ms"]
        mine = entries[key]
        entry = (now_ms, place, record[rule.field] if rule.field else 1, record["_id"])
        at = bisect.bisect(mine, entry)
        mine.insert(at, entry)
        window = mine[bisect.bisect(mine, (now_ms - rule.window_ms + 1,)) : at + 1]
        value = _value(rule, window)
        satisfied = ORDERINGS[rule.operator](value, rule.threshold)
        was_satisfied, before_ms = crossed.get(key, (False, 0))
        crossed[key] = satisfied, now_ms
        if satisfied and not (was_satisfied and before_ms > now_ms - rule.window_ms):
            hits.append(_hit(rule, dict(zip(rule.group_by, key, strict=True)), window, entry, value))
    return hits


def _check(rule: Rule) -> None:
    plain = rule.bounds == "(]" and rule.include_current and rule.event_time and rule.cooldown_ms == 0
    known = rule.aggregate in {"count", "sum", "avg"} and rule.emit == "on_crossing"
    if not (plain and known and all(leaf["operator"] == "==" for leaf in rule.conditions or [])):
        raise ValueError(f"rule {rule.rule_id} is not plain enough")


def _value(rule: Rule, window: Sequence[Entry]) -> int | float:
    if rule.aggregate == "count":
        return len(window)
    total = sum(entry[2] for entry in window)
    return total if rule.aggregate == "sum" else float(total) / len(window)


def _hit(rule: Rule, key: Key, window: Sequence[Entry], entry: Entry, value: float) -> Hit:
    now_ms, place, _, record_id = entry
    return Hit(
        alert_id=alert_id_of(rule, key, record_id),
        rule_id=rule.rule_id,
        version=rule.version,
        key=key,
        record_id=record_id,
        position=place,
        kind="alert",
        value=value,
        count=len(window),
        window_start_ms=now_ms - rule.window_ms,
        window_end_ms=now_ms,
        evidence=tuple(other[3] for other in window[-EVIDENCE_IDS_MAX:]),
    )


def with_times(records: Sequence[Mapping[str, Any]], id_field: str, time_field: str) -> list[dict[str, Any]]:
    """Records of a file without ingest times, in file order, as the twins take them."""
    ingest_ms = running_max_ingest([record[time_field] for record in records])
    return [
        {**record, "_id": record[id_field], "_event_ms": record[time_field], "_ingest_ms": at}
        for record, at in zip(records, ingest_ms, strict=True)
    ]
