"""The tables of a lake: columns, partitions, order, bloom filters.

Each table has the columns of ``COMMON``: which batch of which checkpoint a row is of, and when that batch was
delivered. Names of columns that crossline adds to a stream's own begin with ``_``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import FieldSpec, StreamSpec

INSTANT = pa.timestamp("us", "UTC")
STRING = pa.string()

BATCH, CHECKPOINT, DELIVERED = "_batch", "_checkpoint", "_delivered_at"
COMMITTED = "committed_at"  # of a watermark
COMMON = ((BATCH, pa.int64()), (CHECKPOINT, STRING), (DELIVERED, INSTANT))
RECORD_ID, EVENT_TIME, INGEST_TIME = "_record_id", "_event_time", "_ingest_time"
LOG, SEQUENCE, POSITION, DUPLICATE = "_log", "_sequence", "_position", "_duplicate"
REACHED = "_reached_at"
RECORDS = "records"  # a table for each stream: ``records_STREAM``

_TYPES = {
    "string": STRING,
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": INSTANT,
}


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table.

    Attributes:
        name: Its name in the namespace.
        schema: Its columns.
        time: The column by whose day it is partitioned, and by which its files are sorted.
        identity: The columns that tell a row from another one.
        filtered: The columns that have a bloom filter.
        repeats: Whether the same row may come with later batches: each start of a pipeline reports all rule events.
        filters_keys: Whether all strings with many values have a bloom filter.
    """

    name: str
    schema: pa.Schema
    time: str
    identity: tuple[str, ...]
    filtered: tuple[str, ...] = ()
    repeats: bool = False
    filters_keys: bool = False

    def __hash__(self) -> int:
        return hash(self.name)


def _layout(
    name: str,
    columns: Iterable[tuple[str, pa.DataType]],
    time: str,
    identity: tuple[str, ...],
    filtered: tuple[str, ...] = (),
    *,
    repeats: bool = False,
    filters_keys: bool = False,
) -> TableLayout:
    return TableLayout(name, pa.schema([*columns, *COMMON]), time, identity, filtered, repeats, filters_keys)


_ALERT = (
    *(("alert_id", STRING), ("kind", STRING), ("rule_id", STRING), ("rule_version", pa.int64())),
    *(("rule_type", STRING), ("severity", STRING), ("score", pa.float64()), ("action", STRING), ("key", STRING)),
    *(("stream", STRING), ("record_id", STRING), ("event_time", INSTANT), ("ingest_time", INSTANT)),
    *(("value", pa.float64()), ("operator", STRING), ("threshold", pa.float64())),
    *(("window_start", INSTANT), ("window_end", INSTANT), ("record_ids", pa.list_(STRING)), ("message", STRING)),
    *(("detected_at", INSTANT), ("log", STRING), ("position", pa.int64()), ("body", STRING)),
)
_CORRECTION = (*(("corrects", STRING), ("outcome", STRING), ("value_before", pa.float64()), ("caused_by", STRING)),)
_POSITION = (("stream", STRING), ("log", STRING), ("position", pa.int64()), ("record_id", STRING))

ALERTS = _layout("alerts", _ALERT, "event_time", ("alert_id",), ("alert_id", "record_id", "key"))
CORRECTIONS = _layout(
    "corrections", (*_ALERT, *_CORRECTION), "event_time", ("alert_id",), ("alert_id", "corrects", "key")
)
DECISIONS = _layout(
    "decisions",
    (
        *(("decision_id", STRING), ("kind", STRING), ("decision", STRING), ("score", pa.float64())),
        *(("policy_version", pa.int64()), ("rules_digest", STRING), ("stream", STRING), ("record_id", STRING)),
        *(("event_time", INSTANT), ("ingest_time", INSTANT), ("decided_at", INSTANT), ("answered", STRING)),
        *(("rule_ids", pa.list_(STRING)), ("receipt", STRING), ("revises", STRING), ("body", STRING)),
    ),
    "event_time",
    ("decision_id",),
    ("decision_id", "record_id"),
)
RULE_EVENTS = _layout(
    "rule_events",
    (
        *(("event", STRING), ("at", INSTANT), ("rule_id", STRING), ("version", pa.int64()), ("status", STRING)),
        *(("effective_from", INSTANT), ("list_name", STRING), ("table_name", STRING), ("who", STRING)),
        ("body", STRING),
    ),
    "at",
    ("body",),
    repeats=True,
)
DEAD_LETTERS = _layout(
    "dead_letters",
    (*_POSITION, ("reason", STRING), ("detail", STRING), ("raw", pa.binary()), ("planned_at", INSTANT)),
    "planned_at",
    ("stream", "log", "position", "reason"),
    ("record_id",),
)
LATE_RECORDS = _layout(
    "late_records",
    (
        *_POSITION,
        *(("event_time", INSTANT), ("ingest_time", INSTANT), ("lateness_ms", pa.int64()), ("raw", pa.binary())),
    ),
    "event_time",
    ("stream", "log", "position", "record_id"),
    ("record_id",),
)
LABELS = _layout(
    "labels",
    (
        *(("stream", STRING), ("record_id", STRING), ("version", pa.int64()), ("is_fraud", pa.bool_())),
        *(("known_at", INSTANT), ("reason", STRING), ("who", STRING), ("at", INSTANT), ("case_id", STRING)),
        ("withdrawn", pa.bool_()),
    ),
    "at",
    ("stream", "record_id", "version"),
    ("record_id",),
)
CASES = _layout(
    "cases",
    (
        *(("case_id", STRING), ("event", STRING), ("at", INSTANT), ("who", STRING), ("text", STRING)),
        *(("version", pa.int64()), ("before", STRING), ("after", STRING)),
    ),
    "at",
    ("case_id", "version", "event", "at"),
    ("case_id",),
)
RECEIPTS = _layout(
    "receipts",
    (
        *(("decision_id", STRING), ("stream", STRING), ("record_id", STRING), ("replica", STRING)),
        *(("sequence", pa.int64()), ("digest", STRING), ("at", INSTANT), ("answer", STRING)),
        *(("basis_digest", STRING), ("basis", STRING), ("body", STRING)),
    ),
    "at",
    ("replica", "sequence"),
    ("decision_id", "record_id"),
)
WATERMARKS = _layout(
    "watermarks",
    ((COMMITTED, INSTANT), ("snapshots", STRING), ("clocks", STRING)),
    COMMITTED,
    (CHECKPOINT, BATCH),
)
# Records that a topic had deleted before the lake had them: positions ``first`` to ``end`` (exclusive) of a log.
MISSING = _layout(
    "missing_records",
    (("stream", STRING), ("log", STRING), ("first", pa.int64()), ("end", pa.int64()), ("noted_at", INSTANT)),
    "noted_at",
    ("stream", "log", "first", "end"),
)
# Spans of the ingest clock that a rule version has judged afterwards, and the alerts that it would have given.
FILLS = _layout(
    "fills",
    (
        *(("rule_id", STRING), ("rule_version", pa.int64()), ("stream", STRING)),
        *(("from", INSTANT), ("to", INSTANT), ("alerts", pa.int64()), ("filled_at", INSTANT)),
    ),
    "filled_at",
    ("rule_id", "rule_version", "stream", "from", "to"),
)
# A fill that was killed may be repeated with another end.
FILLED_ALERTS = _layout(
    "filled_alerts", _ALERT, "event_time", ("alert_id",), ("alert_id", "record_id", "key"), repeats=True
)
# What records beyond the allowed lateness would have changed, had they come in time. The same report may be repeated.
LATE_CHANGES = _layout(
    "late_changes",
    (
        *(("alert_id", STRING), ("rule_id", STRING), ("rule_version", pa.int64()), ("stream", STRING)),
        *(("key", STRING), ("record_id", STRING), ("event_time", INSTANT), ("outcome", STRING)),
        *(("value_before", pa.float64()), ("value", pa.float64()), ("body", STRING)),
    ),
    "event_time",
    ("alert_id", "outcome", "body"),
    ("alert_id", "record_id"),
    repeats=True,
)
# Snapshots of a pipeline's state after batch ``_batch``; the files of one are below its location.
STATES = _layout(
    "state_snapshots",
    (
        *(("taken_at", INSTANT), ("location", STRING), ("bytes", pa.int64()), ("files", pa.int64())),
        *(("manifest_digest", STRING), ("format", pa.int64()), ("shards", pa.int64()), ("clocks", STRING)),
        *(("rules_digest", STRING), ("rule_log_bytes", pa.int64())),
    ),
    "taken_at",
    ("location",),
)
SIDE = (RECEIPTS, LABELS, CASES)
REPORTS = (MISSING, FILLS, FILLED_ALERTS, LATE_CHANGES, STATES)  # made with their first row
OUTPUTS = (ALERTS, CORRECTIONS, DECISIONS, RULE_EVENTS, DEAD_LETTERS, LATE_RECORDS)


def records_layout(stream: str, spec: StreamSpec) -> TableLayout:
    """The table of a stream's records.

    ``_log`` and ``_position`` are where a record stands: topic-partition and offset, or file and byte. ``_sequence``
    orders the files of a stream; null: a topic. ``_reached_at`` is the highest ingest time of the log up to the record.

    Args:
        stream: The stream's name.
        spec: Its declaration: a column for each field, a struct for nested ones; fields of headers too.

    Raises:
        UsageError: A field has the name of a column that crossline adds.
    """
    own = own_fields(spec)
    system = (
        *((RECORD_ID, STRING), (EVENT_TIME, INSTANT), (INGEST_TIME, INSTANT), (REACHED, INSTANT), (LOG, STRING)),
        *((SEQUENCE, pa.int64()), (POSITION, pa.int64()), (DUPLICATE, pa.bool_())),
    )
    added = {name for name, _ in (*system, *COMMON)}
    if clash := sorted({name.partition(".")[0] for name in own} & added):
        raise UsageError(f"stream {stream}: field {clash[0]} has the name of a column of the lake; rename the field")
    columns = [*system, *((field.name, field.type) for field in _nested(own))]
    identity = (LOG, POSITION, RECORD_ID)
    return _layout(records_table(stream), columns, EVENT_TIME, identity, (RECORD_ID,), filters_keys=True)


def records_table(stream: str) -> str:
    """The name of the table of a stream's records: letters, digits and ``_``, as all engines take them.

    >>> records_table("card.payments-eu")
    'records_card_payments_eu'
    """
    return f"{RECORDS}_{re.sub(r'[.-]', '_', stream)}"


def own_fields(spec: StreamSpec) -> dict[str, FieldSpec]:
    """The fields of a stream that its table holds: those of records and of headers, not those of joined tables."""
    return {name: field for name, field in spec.columns.items() if _is_own(name, spec)}


def _is_own(name: str, spec: StreamSpec) -> bool:
    return name in spec.own_columns or name in spec.header_fields


def _nested(fields: Mapping[str, FieldSpec]) -> list[pa.Field]:
    """Dotted names as structs, in the order of the first of each."""
    tops: dict[str, dict[str, FieldSpec]] = {}
    for name, field in fields.items():
        top, _, rest = name.partition(".")
        tops.setdefault(top, {})[rest] = field
    return [
        pa.field(top, arrow_type(inner[""]) if "" in inner else pa.struct(_nested(inner)))
        for top, inner in tops.items()
    ]


def arrow_type(field: FieldSpec) -> pa.DataType:
    """The type of a field's column."""
    return pa.list_(_TYPES[field.kind]) if field.is_list else _TYPES[field.kind]
