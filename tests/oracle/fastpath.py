"""The real way of records, without Spark: JSON lines, decoder, routing, packed parts, shards, segments of state.

What comes out is put into the twin's words, so that both can be compared with ``==``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics import wire
from crossline.basics.conditions.lists import Lists, named_lists
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.values import Records
from crossline.basics.wire import WirePart
from crossline.evaluate.alerts.alert import alerts_of
from crossline.evaluate.alerts.alert_json import json_bytes, json_value, read_alerts
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.derived_streams import derived
from crossline.evaluate.feature_rows import FeatureRows
from crossline.evaluate.output import Position
from crossline.evaluate.shard import ShardState, judge
from crossline.evaluate.state_log import apply_delta, encode_delta, expired
from crossline.ingest.decode import RecordLayout, decode_lines, make_layout
from crossline.ingest.enrich.join import Join, joined
from crossline.ingest.route.part_codec import pack, unpack
from crossline.ingest.route.partitioner import Chunk, Part, Piece
from crossline.ingest.route.plan_inputs import entering
from crossline.plan.compile import StreamPlan
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.stages.feature_table import feature_table_rows

from .naive import Hit, NaiveResult
from .rule_versions import DEFAULTS, duration_ms
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
    rules: Sequence[Body],
    spec: StreamSpec,
    defaults: Mapping[str, str],
    lists: Collection[str] = tuple(LISTS),
    others: Mapping[str, StreamSpec] | None = None,
) -> list[StreamPlan]:
    """The same of rules that may read hits, and ``others``: the stream's plan first."""
    streams = {STREAM: spec, **(others or {})}
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", streams, lists)
    standing = {**DEFAULTS, **defaults}
    resolved = Defaults(
        time_mode="event_time" if standing["time_mode"] == "event_time" else "processing_time",
        watermark_delay_ms=duration_ms(standing["watermark_delay"]),
        allowed_lateness_ms=duration_ms(standing["allowed_lateness"]),
    )
    plans = compile_all(RuleSet.from_rules(item.rule for item in loaded), streams, resolved)
    return [plans.pop(STREAM), *plans.values()]


@dataclass(slots=True)
class Shard:
    """A shard's state and the segments that it can be made from again; ``above``: those of the depth above."""

    state: ShardState = field(default_factory=ShardState)
    segments: list[bytes] = field(default_factory=list)
    above: Shard | None = None

    def at(self, depth: int) -> Shard:
        """The state at ``depth``, this one's being 1."""
        if depth == 1:
            return self
        self.above = self.above or Shard()
        return self.above.at(depth - 1)


@dataclass(slots=True)
class FastPath:
    """One stream judged batch by batch on some shards. ``alerts``, ``duplicates`` and ``late`` grow."""

    plans: list[StreamPlan]
    shards: list[Shard]
    bounds: Bounds
    layouts: dict[str, RecordLayout]
    alerts: list[dict[str, Any]] = field(default_factory=list)
    duplicates: list[Position] = field(default_factory=list)
    late: list[Position] = field(default_factory=list)
    feature_queries: list[FeatureRows] = field(default_factory=list)
    feature_table_rows: list[list[tuple[str, bytes]]] = field(default_factory=list)  # by batch, as they leave shards
    missed: dict[str, int] = field(default_factory=dict)
    lists: Lists = field(default_factory=lambda: named_lists(LISTS))
    joins: Sequence[Join] = ()
    positions: dict[tuple[str, int], int] = field(default_factory=dict)  # (log, byte offset) -> place among the records
    streams: dict[str, str] = field(default_factory=dict)  # of logs that are not of the stream
    together: bool = False  # the chunks of a batch are routed as one, where their ingest times are known
    _ends: dict[str, int] = field(default_factory=dict)
    _sequence: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: StreamPlan | list[StreamPlan], shards: int, bounds: Bounds | None = None) -> FastPath:
        plans = [plan] if isinstance(plan, StreamPlan) else plan
        layouts = {each.stream: make_layout(each.stream, each.spec) for each in plans if each.reports}
        return cls(plans, [Shard() for _ in range(shards)], bounds or Bounds(), layouts)

    def at(self, depth: int) -> list[StreamPlan]:
        """The plans of ``depth``."""
        return [plan for plan in self.plans if plan.depth == depth]

    def batch(self, chunks: Iterable[tuple[str, Sequence[tuple[int, Record]]]]) -> None:
        """Judge one batch of chunks, each the next records of a log with their places among all records."""
        given = [self._chunk(log, records) for log, records in chunks]
        if self.together and len(given) > 1 and all(records.ingest_ms is not None for records, _ in given):
            given = [as_one(given)]
        self.judge([part for records, chunk in given for part in self._entering(records, chunk)])

    def judge(self, parts: list[tuple[int, Part]]) -> None:
        """Judge the parts of one batch, each at its depth."""
        self.feature_table_rows.append([])
        for depth in range(1, max(plan.depth for plan in self.plans) + 1):
            for number in range(len(self.shards)):
                blob = pack(part for at, part in parts if at == depth and part.shard == number)
                parts += self._judge(number, depth, list(unpack(blob, "parts")))

    def take_in(self, log: str, records: Sequence[tuple[int, Record]], *, last: bool = False) -> list[tuple[int, Part]]:
        return self._entering(*self._chunk(log, records, last=last))

    def _chunk(self, log: str, records: Sequence[tuple[int, Record]], *, last: bool = False) -> tuple[Records, Chunk]:
        start = self._ends.get(log, 0)
        lines = [orjson.dumps(wire_record(record)) + b"\n" for _, record in records]
        offsets = itertools.accumulate((len(line) for line in lines), initial=start)
        for (place, _), offset in zip(records, offsets, strict=False):
            self.positions[log, offset] = place
        chunk = b"".join(lines)
        self._ends[log] = start + len(chunk)
        stream = self.streams.get(log, STREAM)
        decoded = decode_lines(self.layouts[stream], chunk, log, start)
        assert not decoded.dead
        sequence = self._sequence[log] = self._sequence.get(log, -1) + 1
        return decoded.records, Chunk(log, sequence, log, last)

    def _entering(self, records: Records, chunk: Chunk) -> list[tuple[int, Part]]:
        plan = next(each for each in self.plans if each.stream == records.stream)
        records = joined(plan.spec, [each for each in self.joins if each.name in plan.tables], records)
        return list(entering(self.plans, records, chunk, len(self.shards), self.lists))

    def _judge(self, number: int, depth: int, parts: list[WirePart]) -> list[tuple[int, Part]]:
        shard, plans = self.shards[number].at(depth), self.at(depth)
        output = judge(plans, shard.state, parts, self.bounds)
        shard.segments.append(encode_delta(len(shard.segments), shard.state, output.deltas))
        self.alerts += read_alerts(json_bytes(alerts_of(plans, output.hits, 0)))
        self.duplicates += output.duplicates
        self.late += output.late
        self.feature_queries += output.feature_queries
        self.feature_table_rows[-1] += feature_table_rows(self.plans, output)
        for table, count in output.missed.items():
            self.missed[table] = self.missed.get(table, 0) + count
        given = (shard.state.log_clock, len(self.shards), self.lists, output.feature_queries)
        return derived(self.plans, depth, output.read, *given, own=number)

    def restore(self, number: int) -> None:
        """Lose a shard's state and make it again from its segments, without those that are past all use.

        The last one is always kept: the clocks stand in it.
        """
        for depth in range(1, max(plan.depth for plan in self.plans) + 1):
            shard, plans = self.shards[number].at(depth), self.at(depth)
            decoded = [wire.decode(segment, "segment") for segment in shard.segments]
            while len(decoded) > 1 and expired(plans, shard.state, [decoded[0][0]], self.bounds):
                del decoded[0]
            shard.state = ShardState()
            for meta, arrays in decoded:
                apply_delta(plans, shard.state, meta, arrays, self.bounds)

    def outcome(self) -> tuple[list[Any], list[int], list[int]]:
        """Alerts, and the places of duplicates and of late records, in an order of their own."""
        duplicates, late = (
            sorted(self.positions[p.partition, p.offset] for p in found) for found in (self.duplicates, self.late)
        )
        return sorted(map(alert_values, self.alerts)), duplicates, late


def as_one(given: Sequence[tuple[Records, Chunk]]) -> tuple[Records, Chunk]:
    """Chunks of one stream, end to end."""
    (first, chunk), ends = given[0], itertools.accumulate(len(records) for records, _ in given)
    whole = replace(
        first,
        ids=pa.concat_arrays([records.ids for records, _ in given]),
        event_ms=np.concatenate([records.event_ms for records, _ in given]),
        ingest_ms=np.concatenate([records.ingest_ms for records, _ in given if records.ingest_ms is not None]),
        offsets=np.concatenate([records.offsets for records, _ in given]),
        fields={name: pa.concat_arrays([records.fields[name] for records, _ in given]) for name in first.fields},
    )
    pieces = [Piece(each.log, each.sequence, each.partition, end) for (_, each), end in zip(given, ends, strict=True)]
    return whole, replace(chunk, pieces=tuple(pieces))


def twin_outcome(result: NaiveResult, records: Sequence[Record]) -> tuple[list[Any], list[int], list[int]]:
    """The same of the twin."""
    return sorted(hit_values(hit, records[hit.position]) for hit in result.hits), result.duplicates, result.late


def hit_values(hit: Hit, record: Record) -> tuple[Any, ...]:
    """The expected values of an alert, sortable; numbers as text, so that 1 and 1.0 and any two floats differ.

    Zero is one number, since the twin does not know the type of an empty sum.
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
        hit.times[:2] if hit.times else (record["_event_ms"], record["_ingest_ms"]),
        () if hit.window_end_ms is None else (hit.window_start_ms, hit.window_end_ms),
        _read({name: (_figure(json_value(value)), count) for name, (value, count) in hit.figures.items()}),
        _read(hit.fields),
        hit.steps,
        "" if hit.known_ms is None else str(hit.known_ms),
    )


def _read(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def alert_values(alert: Mapping[str, Any]) -> tuple[Any, ...]:
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
        str(_ms(evidence["known_at"])) if "known_at" in evidence else "",
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
