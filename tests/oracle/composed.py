"""The naive twin of composition: the hits of a rule, written out as records, are judged by the rules that read it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .conditions import Lists
from .naive import Hit, NaiveResult, Standing, alert_id_of, naive_detect
from .rule_versions import read_snapshot
from .strategies import STREAM, Body, Record

_BETWEEN = "|"
_TIMES = ("_event_ms", "_ingest_ms", "_reached_ms")
MOST = 1.7976931348623157e308


def composed_detect(
    rules: Sequence[Body],
    records: Sequence[Record],
    *,
    defaults: Mapping[str, str] | None = None,
    lists: Lists | None = None,
    passed_ms: float | None = None,
) -> NaiveResult:
    """As ``naive_detect``, where rules may read ``rule:<id>``. Of several logs a record names its own as ``_log``.

    Records that are not in the order in which they came say as ``_reached_ms`` how far their log had come.
    """
    reached = list(itertools.accumulate((record["_ingest_ms"] for record in records), max))
    records = [{"_reached_ms": ms, **record} for record, ms in zip(records, reached, strict=True)]
    passed_ms = max(reached, default=0) if passed_ms is None else passed_ms
    base = [body for body in rules if body["source_topic"] == STREAM]
    result = naive_detect(base, records, defaults=defaults, lists=lists, passed_ms=passed_ms)
    waiting = {body["source_topic"] for body in rules} - {STREAM}
    topics = {body["rule_id"]: body["source_topic"] for body in rules}
    while waiting:
        topic = next(each for each in sorted(waiting) if topics[each.removeprefix("rule:")] not in waiting)
        waiting.remove(topic)
        read = [hit for hit in result.hits if hit.rule_id == topic.removeprefix("rule:")]
        readers = [body for body in rules if body["source_topic"] == topic]
        for strict in (True, False):
            hits, standing = _looked_at(readers, rules, read, records, strict, defaults, lists, passed_ms)
            result.hits += hits
            raised = {(hit.alert_id, hit.position) for hit in hits}
            # A record that was hit several times is one: where it raised the alert itself, nothing else stands by that.
            known = dict.fromkeys(each for each in standing if (each.alert_id, each.position) not in raised)
            result.standing += known
    return result


def _judged(
    readers: list[Body],
    rules: Sequence[Body],
    hits: Sequence[Hit],
    records: Sequence[Record],
    strict: bool,
    defaults: Mapping[str, str] | None,
    lists: Lists | None,
    passed_ms: float,
) -> list[Hit]:
    """The hits of ``_looked_at``."""
    return _looked_at(readers, rules, hits, records, strict, defaults, lists, passed_ms)[0]


def _looked_at(
    readers: list[Body],
    rules: Sequence[Body],
    hits: Sequence[Hit],
    records: Sequence[Record],
    strict: bool,
    defaults: Mapping[str, str] | None,
    lists: Lists | None,
    passed_ms: float,
) -> tuple[list[Hit], list[Standing]]:
    """Hits of versions that were active at some time (``strict``), which see none of shadow rules; or of the others.

    And where these stand.
    """
    active = {(body["rule_id"], body["version"]) for body in readers if body.get("status", "active") == "active"}
    read = [hit for hit in hits if not (strict and hit.kind == "shadow")]
    seen = sorted(read, key=lambda hit: _place(hit, records[hit.position]))
    made = [_as_record(hit, records[hit.position], rules) for hit in seen]
    found = naive_detect(readers, made, defaults=defaults, lists=lists, passed_ms=passed_ms)
    mine = [hit for hit in found.hits if ((hit.rule_id, hit.version) in active) == strict]
    plain = [_plainly(hit, seen, made, readers) for hit in mine]
    known = {hit.alert_id: each.alert_id for hit, each in zip(mine, plain, strict=True)}
    standing = [
        replace(each, position=seen[each.position].position, alert_id=known.get(str(each.alert_id)))
        for each in found.standing
        if ((each.rule_id, each.version) in active) == strict
    ]
    return plain, standing


def _place(hit: Hit, record: Record) -> tuple[float, str, int]:
    """Where a hit stands among others: where its log had got to, or the clock when it was known."""
    return _times(hit, record)[2], record.get("_log", ""), hit.position


def _times(hit: Hit, record: Record) -> tuple[int, int, int]:
    """Event time and ingest time of a hit as a record, and what its log had reached."""
    if hit.known_ms is not None:
        return (hit.known_ms,) * 3
    return hit.times or _times_of(record)


def _times_of(record: Record) -> tuple[int, int, int]:
    return tuple(record[name] for name in _TIMES)  # type: ignore[return-value]


def _as_record(hit: Hit, record: Record, rules: Sequence[Body]) -> Record:
    (body, *_) = (b for b in rules if (b["rule_id"], b["version"]) == (hit.rule_id, hit.version))
    content = {
        "value": None if hit.value is None else max(-MOST, min(MOST, float(hit.value))),
        "severity": body.get("severity", "medium"),
        "score": body.get("score", 0),
        "version": hit.version,
        "shadow": hit.kind == "shadow",
        "key": dict(hit.key),
    }
    times = dict(zip(_TIMES, _times(hit, record), strict=True))
    return {**record, **times, "hit": content, "_id": f"{hit.alert_id}{_BETWEEN}{hit.record_id}"}


def _plainly(hit: Hit, seen: Sequence[Hit], made: Sequence[Record], readers: Sequence[Body]) -> Hit:
    """By the id of the record that was hit, at its place among all."""
    (rule, *_) = (r for r in read_snapshot(readers, {}) if (r.rule_id, r.version) == (hit.rule_id, hit.version))
    record_id = hit.record_id.split(_BETWEEN)[1]
    return replace(
        hit,
        record_id=record_id,
        position=seen[hit.position].position,
        times=_times_of(made[hit.position]),
        alert_id=alert_id_of(rule, hit.key, record_id),
        evidence=tuple(each.split(_BETWEEN)[1] for each in hit.evidence),
        steps=tuple((name, tuple(each.split(_BETWEEN)[1] for each in ids)) for name, ids in hit.steps),
    )
