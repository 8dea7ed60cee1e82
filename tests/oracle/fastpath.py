"""The real way of records, without Spark: JSON lines, decoder, routing, packed parts, shards, segments of state.

What comes out is put into the twin's words, so that both can be compared with ``==``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from crossline.core.alerts.alert import alerts_of
from crossline.core.alerts.alertjson import json_bytes, json_value, read_alerts
from crossline.core.basics import wire
from crossline.core.basics.wire import WirePart
from crossline.core.conditions.lists import Lists, named_lists
from crossline.core.decode import RecordLayout, decode_lines, make_layout
from crossline.core.judge.onward import onward
from crossline.core.judge.persist import apply_delta, encode_delta, expired
from crossline.core.judge.shard import Bounds, Position, ShardState, judge
from crossline.core.plan.compile import StreamPlan
from crossline.core.plan.compose import compile_all
from crossline.core.route.pack import pack, unpack
from crossline.core.route.parts import Chunk, Part, route
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet, load_rules_text
from crossline.core.streams.schema import StreamSpec, load_streams

from .naive import Hit, NaiveResult
from .rulebook import DEFAULTS, duration_ms
from .strategies import LISTS, STREAM, STREAM_FILE, Body, Record, wire_record


def stream_spec(*, ingest_column: bool) -> StreamSpec:
    """The stream of the strategies, with a column for ingest time or without."""
    stream = dict(STREAM_FILE["streams"][STREAM])
    if not ingest_column:
        del stream["ingest_time"]
        stream["fields"] = {name: kind for name, kind in stream["fields"].items() if name != "received_at"}
    return load_streams(json.dumps({"schema_version": 1, "streams": {STREAM: stream}}), "stream.yaml")[STREAM]


def plan_of(
    rules: Sequence[Body], spec: StreamSpec, defaults: Mapping[str, str], lists: Collection[str] = tuple(LISTS)
) -> StreamPlan:
    """``rules``, which read the stream alone, as they are loaded from a file, compiled."""
    return plans_of(rules, spec, defaults, lists)[0]


def plans_of(
    rules: Sequence[Body], spec: StreamSpec, defaults: Mapping[str, str], lists: Collection[str] = tuple(LISTS)
) -> list[StreamPlan]:
    """The same of rules that may read hits: the stream's plan first."""
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", {STREAM: spec}, lists)
    standing = {**DEFAULTS, **defaults}
    resolved = Defaults(
        time_mode="event_time" if standing["time_mode"] == "event_time" else "processing_time",
        watermark_delay_ms=duration_ms(standing["watermark_delay"]),
        allowed_lateness_ms=duration_ms(standing["allowed_lateness"]),
    )
    return list(compile_all(RuleSet.from_rules(item.rule for item in loaded), {STREAM: spec}, resolved).values())


@dataclass(slots=True)
class Shard:
    """A shard's state and the segments that it can be made from again; ``above``: those of the level above."""

    state: ShardState = field(default_factory=ShardState)
    segments: list[bytes] = field(default_factory=list)
    above: Shard | None = None

    def at(self, level: int) -> Shard:
        """The state at ``level``, this one's being 1."""
        if level == 1:
            return self
        self.above = self.above or Shard()
        return self.above.at(level - 1)


@dataclass(slots=True)
class FastPath:
    """One stream judged batch by batch on some shards. ``alerts``, ``duplicates`` and ``late`` grow."""

    plans: list[StreamPlan]
    shards: list[Shard]
    bounds: Bounds
    layout: RecordLayout
    alerts: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)
    lists: Lists = field(default_factory=lambda: named_lists(LISTS))
    positions: dict[tuple[str, int], int] = field(default_factory=dict)  # (log, byte offset) -> place among the records
    _ends: dict[str, int] = field(default_factory=dict)
    _sequence: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: StreamPlan | list[StreamPlan], shards: int, bounds: Bounds | None = None) -> FastPath:
        plans = [plan] if isinstance(plan, StreamPlan) else plan
        return cls(plans, [Shard() for _ in range(shards)], bounds or Bounds(), make_layout(STREAM, plans[0].spec))

    def at(self, level: int) -> list[StreamPlan]:
        """The plans of ``level``."""
        return [plan for plan in self.plans if plan.level == level]

    def batch(self, chunks: Iterable[tuple[str, Sequence[tuple[int, Record]]]]) -> None:
        """Judge one batch of chunks, each the next records of a log with their places among all records."""
        blobs: list[list[bytes]] = [[] for _ in self.shards]
        for log, records in chunks:
            parts = self._take_in(log, records)
            for number, mine in enumerate(blobs):
                mine.append(pack(part for part in parts if part.shard == number))
        for level in range(1, max(plan.level for plan in self.plans) + 1):
            further: list[Part] = []
            for shard, mine in zip(self.shards, blobs, strict=True):
                further += self._judge(shard, level, [part for blob in mine for part in unpack(blob, "parts")])
            blobs = [[pack(part for part in further if part.shard == number)] for number in range(len(self.shards))]

    def _take_in(self, log: str, records: Sequence[tuple[int, Record]]) -> list[Any]:
        start = self._ends.get(log, 0)
        lines = [orjson.dumps(wire_record(record)) + b"\n" for _, record in records]
        offsets = itertools.accumulate((len(line) for line in lines), initial=start)
        for (place, _), offset in zip(records, offsets, strict=False):
            self.positions[log, offset] = place
        chunk = b"".join(lines)
        self._ends[log] = start + len(chunk)
        decoded = decode_lines(self.layout, chunk, log, start)
        assert not decoded.dead
        sequence = self._sequence[log] = self._sequence.get(log, -1) + 1
        return route(self.plans[0], decoded.records, Chunk(log, sequence, log), len(self.shards), self.lists)

    def _judge(self, first: Shard, level: int, parts: list[WirePart]) -> list[Part]:
        shard, plans = first.at(level), self.at(level)
        output = judge(plans, shard.state, parts, self.bounds)
        shard.segments.append(encode_delta(len(shard.segments), shard.state, output.deltas))
        self.alerts += read_alerts(json_bytes(alerts_of(plans, output.hits, 0)))
        self.duplicates += output.duplicates
        self.late += output.late
        return onward(self.plans, level, output.hits, shard.state.log_clock, len(self.shards), self.lists)

    def restore(self, number: int) -> None:
        """Lose a shard's state and make it again from its segments, without those that are past all use.

        The last one is always kept: the clocks stand in it.
        """
        for level in range(1, max(plan.level for plan in self.plans) + 1):
            shard, plans = self.shards[number].at(level), self.at(level)
            decoded = [wire.decode(segment, "segment") for segment in shard.segments]
            while len(decoded) > 1 and expired(plans, shard.state, [decoded[0][0]], self.bounds):
                del decoded[0]
            shard.state = ShardState()
            for meta, arrays in decoded:
                apply_delta(plans, shard.state, meta, arrays, self.bounds)

    def told(self) -> tuple[list[Any], list[int], list[int]]:
        """Alerts, and the places of duplicates and of late records, in an order of their own."""
        duplicates, late = (
            sorted(self.positions[p.partition, p.offset] for p in found) for found in (self.duplicates, self.late)
        )
        return sorted(map(told_by_alert, self.alerts)), duplicates, late


def told_by_twin(result: NaiveResult, records: Sequence[Record]) -> tuple[list[Any], list[int], list[int]]:
    """The same of the twin."""
    return sorted(told_by_hit(hit, records[hit.position]) for hit in result.hits), result.duplicates, result.late


def told_by_hit(hit: Hit, record: Record) -> tuple[Any, ...]:
    """What an alert must say, in values that sort; numbers as text, which tells 1 from 1.0 and any two floats apart.

    Zero is one number, since the twin cannot tell what an empty sum is a sum of.
    """
    return (
        hit.rule_id,
        hit.version,
        hit.record_id,
        hit.alert_id,
        hit.kind,
        json.dumps(hit.key),
        _figure(json_value(hit.value)),
        hit.count,
        hit.evidence,
        (record["_event_ms"], record["_ingest_ms"]),
        () if hit.window_end_ms is None else (hit.window_start_ms, hit.window_end_ms),
        _read({name: (_figure(json_value(value)), count) for name, (value, count) in hit.figures.items()}),
        _read(hit.fields),
        hit.steps,
    )


def _read(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def told_by_alert(alert: Mapping[str, Any]) -> tuple[Any, ...]:
    """The same of an alert."""
    start, end = alert["window_start"], alert["window_end"]
    evidence = alert["evidence"]
    shown = evidence.get("records")
    assert shown is None or [record["record_id"] for record in shown] == evidence["record_ids"]
    return (
        alert["rule_id"],
        alert["rule_version"],
        alert["record_id"],
        alert["alert_id"],
        alert["kind"],
        json.dumps(alert["key"]),
        _figure(alert["value"]),
        evidence["count"],
        tuple(evidence["record_ids"]),
        (_ms(alert["event_time"]), _ms(alert["ingest_time"])),
        () if end is None else (_ms(start), _ms(end)),
        *_read_by(evidence),
        tuple((step["name"], tuple(step["record_ids"])) for step in evidence.get("steps", ())),
    )


def _read_by(evidence: Mapping[str, Any]) -> tuple[str, str]:
    """What a formula read; of a rule without one nothing, whatever else it shows."""
    if "fields" not in evidence:
        return "{}", "{}"
    figures = {name: (_figure(each["value"]), each["count"]) for name, each in evidence["figures"].items()}
    return _read(figures), _read(evidence["fields"])


def _figure(value: Any) -> str:
    if isinstance(value, str):
        return value
    return repr(value) if value != 0 else "0"


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
