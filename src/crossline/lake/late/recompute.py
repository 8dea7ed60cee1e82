"""What records beyond the allowed lateness would have changed, had no record been too late.

The records of their keys are judged twice by patient rules: with them and without them. What differs is what they would
have changed. Nothing is corrected: decisions about earlier records stay. The changes are kept in the table
``late_changes``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from crossline.backtest.backtest import BacktestSpec
from crossline.basics.times import parse_instant_ms
from crossline.evaluate.alerts.alert_json import json_bytes, number_of
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.late.patient_rules import PatientRules
from crossline.lake.reading import LakeReader
from crossline.lake.replays.replay import reach_ms
from crossline.lake.replays.replay_input import LakeInput
from crossline.lake.tables.delivery_rows import rows_table
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.record_rows import milliseconds
from crossline.lake.tables.row_filters import between, equal, none_of, one_of
from crossline.lake.tables.table_layouts import (
    BATCH,
    CHECKPOINT,
    DELIVERED,
    DUPLICATE,
    LATE_CHANGES,
    LATE_RECORDS,
    RECORD_ID,
)

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

_COLUMNS = ("stream", "record_id", "event_time", "ingest_time", "lateness_ms")
_SPARE_MS = 1_000


@dataclass(frozen=True, slots=True)
class LateRecords:
    """The late records of a stream.

    Attributes:
        stream: The stream.
        ids: Their ids.
        first_ms: Their lowest event time, in epoch milliseconds.
        last_ms: Their highest ingest time.
        lateness_ms: A lateness that none is beyond.
    """

    stream: str
    ids: frozenset[str]
    first_ms: int
    last_ms: int
    lateness_ms: int


@dataclass(frozen=True, slots=True)
class LateChange:
    """An alert that would have appeared or disappeared, or would have another value; ``before`` is the other value."""

    outcome: str
    alert: Mapping[str, Any]
    before: Any = None


def late_records(reader: LakeReader, from_ms: int | None = None, to_ms: int | None = None) -> list[LateRecords]:
    """The late records that were delivered from ``from_ms`` to before ``to_ms``, by stream."""
    where = [between(DELIVERED, from_ms, None if to_ms is None else to_ms - 1)]
    rows = reader.rows(LATE_RECORDS.name, where, _COLUMNS)
    found: list[LateRecords] = []
    for stream in sorted(set(rows.column("stream").to_pylist())):
        mine = rows.filter(pc.equal(rows.column("stream"), stream))
        first_ms, last_ms = (milliseconds(mine.column(name)) for name in ("event_time", "ingest_time"))
        lateness_ms = int(pc.max(mine.column("lateness_ms")).as_py()) + _SPARE_MS
        ids = frozenset(each for each in mine.column("record_id").to_pylist() if each is not None)
        found.append(LateRecords(stream, ids, pc.min(first_ms).as_py(), pc.max(last_ms).as_py(), lateness_ms))
    return found


def inputs_of(
    reader: LakeReader, judged: BacktestSpec, group: PatientRules, late: LateRecords
) -> tuple[LakeInput, LakeInput] | None:
    """The records that ``group`` judges, without the late ones and with them; None: no late record has a key.

    Args:
        reader: The lake.
        judged: What judges, by the rules of ``group``.
        group: The rules.
        late: The late records of their stream.
    """
    where = _of_keys(reader, group, late)
    if where is None:
        return None
    reach = reach_ms(judged)
    streams = judged.history.streams
    span = (late.first_ms - reach, late.last_ms + reach + 1, reader.known_ms())
    whole = LakeInput(reader, streams, {group.stream: ()}, *span, where={group.stream: [where]})
    return replace(whole, where={group.stream: [where, none_of(RECORD_ID, late.ids)]}), whole


def _of_keys(reader: LakeReader, group: PatientRules, late: LateRecords) -> BooleanExpression | None:
    """The condition on records of the late records' keys."""
    if group.field is None:
        return one_of(RECORD_ID, late.ids)
    top = group.field.partition(".")[0]
    rows = reader.records(group.stream, [one_of(RECORD_ID, late.ids), equal(DUPLICATE, value=False)], (top,))
    values = {value for value in _column(rows, group.field).to_pylist() if value is not None}
    return one_of(group.field, values) if values else None


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    top, *rest = name.split(".")
    column = rows.column(top)
    for each in rest:
        column = pc.struct_field(column, each)
    return column


def changes(without: Iterable[dict[str, Any]], with_them: Iterable[dict[str, Any]]) -> list[LateChange]:
    """What differs between the alerts of two runs, after corrections, in the order of the records."""
    before = {alert["alert_id"]: alert for alert in current_states(without)}
    after = {alert["alert_id"]: alert for alert in current_states(with_them)}
    found = [LateChange("disappears", alert) for name, alert in before.items() if name not in after]
    for name, alert in after.items():
        if name not in before:
            found.append(LateChange("appears", alert))
        elif before[name]["value"] != alert["value"]:
            found.append(LateChange("changes", alert, before[name]["value"]))
    return sorted(found, key=lambda each: (each.alert["event_time"], each.alert["alert_id"]))


def keep_changes(lake: LakeAddress, found: Sequence[LateChange]) -> int:
    """Append the changes that the table does not have; how many."""
    if not found:
        return 0
    now_us = time.time_ns() // 1_000
    common = {BATCH: 0, CHECKPOINT: f"late:{now_us}", DELIVERED: now_us}
    rows = [{**_row(each), **common} for each in found]
    return LakeTable.ensure(lake, LATE_CHANGES).append_new(rows_table(LATE_CHANGES, rows))


def _row(change: LateChange) -> dict[str, Any]:
    alert = {**change.alert, "detected_at": None, "delivered_at": None}
    names = ("alert_id", "rule_id", "rule_version", "stream", "record_id")
    before, value = (number_of(each) for each in (change.before, alert["value"]))
    return {
        **{name: alert[name] for name in names},
        "key": json_bytes(alert["key"]).decode(),
        "event_time": parse_instant_ms(alert["event_time"]) * 1_000,
        "outcome": change.outcome,
        "value_before": None if before is None else float(before),
        "value": None if value is None else float(value),
        "body": json_bytes(alert).decode(),
    }
