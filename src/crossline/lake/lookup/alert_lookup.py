"""Finds alerts, and the records that they rest on, in the tables of a lake, whatever their age.

An alert has the bounds of its window, so that days, files and row groups outside of it are not read. Where the clock of
a rule is not the event time, the days are read outwards from the alert's own, until all records are found.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crossline.backtest.record_search import RecordQuery, SourceRecord
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import parse_instant_ms
from crossline.io.stores.protocol import AlertFilter
from crossline.lake.lookup.record_values import fields_of_row
from crossline.lake.reading import LakeReader
from crossline.lake.tables.row_filters import all_of, any_of, between, equal, instant_literal, one_of, starts_with
from crossline.lake.tables.table_layouts import (
    ALERTS,
    BATCH,
    CHECKPOINT,
    CORRECTIONS,
    DEAD_LETTERS,
    DUPLICATE,
    EVENT_TIME,
    INGEST_TIME,
    LATE_RECORDS,
    LOG,
    POSITION,
    RECORD_ID,
    RULE_EVENTS,
    SEQUENCE,
    own_fields,
    records_table,
)
from crossline.lake.time_travel import Row, read_body

ID_CHARS = 36  # of a whole alert id
_PLACES = {"string": (str,), "integer": (int,), "boolean": (bool,)}


@dataclass(frozen=True, slots=True)
class LakeAlert:
    """An alert as it was delivered, and where the lake has it.

    Attributes:
        alert: The alert.
        checkpoint: The id of the checkpoint that its batch is of.
        batch: The batch.
        position: Log and position of its record; None: not known.
    """

    alert: Row
    checkpoint: str
    batch: int
    position: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class LakeRecord:
    """A record of a stream's table.

    Attributes:
        record: Its position and fields.
        record_id: Its id.
        event_ms: Its event time, epoch milliseconds.
        ingest_ms: Its ingest time, epoch milliseconds.
    """

    record: SourceRecord
    record_id: str
    event_ms: int
    ingest_ms: int

    @staticmethod
    def of(spec: StreamSpec, row: Row) -> LakeRecord:
        """The record of a row."""
        record = SourceRecord(row[LOG], row[POSITION], fields_of_row(spec, row))
        event_ms, ingest_ms = (round(row[each].timestamp() * 1_000) for each in (EVENT_TIME, INGEST_TIME))
        return LakeRecord(record, row[RECORD_ID], event_ms, ingest_ms)


@dataclass(slots=True)
class AlertLookup:
    """Looks alerts and records up in a lake."""

    reader: LakeReader
    _whole: dict[str, int] = field(default_factory=dict)

    def find(self, prefix: str, limit: int = 10, at_ms: int | None = None) -> list[LakeAlert]:
        """The alerts and corrections whose id starts with ``prefix``.

        Args:
            prefix: The id, or its first characters.
            limit: The most alerts.
            at_ms: The event time, epoch milliseconds; None: not known, and the ids of all days are read.
        """
        mine = equal("alert_id", prefix) if len(prefix) >= ID_CHARS else starts_with("alert_id", prefix.lower())
        found: list[LakeAlert] = []
        for name in (ALERTS.name, CORRECTIONS.name):
            instants = [at_ms] if at_ms is not None else self._instants(name, mine)
            for each in sorted(set(instants))[:limit]:
                found += self._alerts(name, [between("event_time", each, each), mine])
        return found[:limit]

    def covers(self, found: LakeAlert) -> bool:
        """Whether all tables have the alert's batch, and with it the records that the alert rests on."""
        return self.whole_to(found.checkpoint) >= found.batch

    def whole_to(self, checkpoint: str) -> int:
        """The last batch of ``checkpoint`` that all tables have; -1: none."""
        known = self._whole.get(checkpoint, -1)
        if known < 0:
            known = self._whole[checkpoint] = self.reader.whole_to(checkpoint)
        return known

    def corrections(self, alert: Mapping[str, Any]) -> list[Row]:
        """The corrections of an alert, in the order of their emission."""
        at_ms = parse_instant_ms(alert["event_time"])
        where = [between("event_time", at_ms, at_ms), equal("corrects", alert["alert_id"])]
        found = sorted(self._alerts(CORRECTIONS.name, where), key=lambda each: each.batch)
        return list({each.alert["alert_id"]: each.alert for each in found}.values())

    def alerts(self, which: AlertFilter, *, newest_first: bool = True) -> Iterator[Row]:
        """Alerts and corrections that match, in order of event time; read as far as they are taken.

        Args:
            which: The filter; the lake does not filter by ``batches``.
            newest_first: Whether the latest come first.
        """
        names = [name for name in (ALERTS.name, CORRECTIONS.name) if _may_be_in(name, which)]
        scan = self.reader.in_order(names, _conditions(which))
        for part in scan.slices(newest_first=newest_first):
            tables = enumerate(scan.rows(part, _BODY))
            found = [(each, number) for number, rows in tables for each in _bodies(rows)]
            found.sort(key=_place, reverse=newest_first)
            yield from (each.alert for each, _ in found if _has_key(each.alert, which.key))

    def count(self) -> int:
        """How many alerts and corrections there are."""
        return sum(self.reader.count(name) for name in (ALERTS.name, CORRECTIONS.name) if self.reader.has(name))

    def rule_body(self, rule_id: str, version: int) -> Row | None:
        """A version of a rule as the pipeline applied it; None where the lake does not have it."""
        if not self.reader.has(RULE_EVENTS.name):
            return None
        where = [equal("rule_id", rule_id), equal("version", version)]
        rows = self.reader.rows(RULE_EVENTS.name, where, ("at", "body")).sort_by([("at", "descending")])
        events = (read_body(text) for text in rows.column("body").to_pylist())
        return next((event["body"] for event in events if event.get("body")), None)

    def refused(self, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Logs and positions of the dead letters and late records of ``stream`` with these ids."""
        found: set[tuple[str, int]] = set()
        for name in (DEAD_LETTERS.name, LATE_RECORDS.name):
            if record_ids and self.reader.has(name):
                where = [equal("stream", stream), one_of("record_id", record_ids)]
                rows = self.reader.rows(name, where, ("log", "position"))
                found |= set(zip(rows.column("log").to_pylist(), rows.column("position").to_pylist(), strict=True))
        return found

    def records(self, stream: str, wanted: RecordQuery, around_ms: int, until_s: float) -> dict[str, SourceRecord]:
        """The records that ``wanted`` asks for, by id. A record that came again counts once, as it came first.

        Args:
            stream: Their stream.
            wanted: The ids, the key, and the bounds of event time. Without bounds, days are read outwards.
            around_ms: The event time from which days are read, epoch milliseconds.
            until_s: Until when days are read, on the clock of ``time.monotonic``.
        """
        found: dict[str, SourceRecord] = {}
        name = records_table(stream)
        if not wanted.ids or not self.reader.has(name):
            return found
        columns = self._columns(name, wanted.spec, (RECORD_ID, LOG, POSITION, DUPLICATE))
        for rows in self._parts(name, columns, wanted, around_ms):
            for row in rows.sort_by([(DUPLICATE, "ascending")]).to_pylist() if len(rows) else ():
                record = SourceRecord(row[LOG], row[POSITION], fields_of_row(wanted.spec, row))
                if row[RECORD_ID] not in found and wanted.matches(record):
                    found[row[RECORD_ID]] = record
            if len(found) == len(set(wanted.ids)) or time.monotonic() >= until_s:
                break
        return found

    def of_keys(
        self, stream: str, spec: StreamSpec, keys: Iterable[Mapping[str, Any]], since_ms: int, until_ms: int, most: int
    ) -> list[LakeRecord]:
        """The records of keys within a span, in the order of their ingest times; copies of records are left out.

        Args:
            stream: Their stream.
            spec: Its declaration.
            keys: By field the value.
            since_ms: The first event time, epoch milliseconds.
            until_ms: The last event time.
            most: The most records: if there are more, those of the latest event times.
        """
        name = records_table(stream)
        if not self.reader.has(name):
            return []
        mine = [equal(DUPLICATE, value=False), any_of([_of_key(spec, key) for key in keys])]
        narrow = self.reader.rows(name, [between(EVENT_TIME, since_ms, until_ms), *mine], (EVENT_TIME,))
        at_ms = sorted(_ms(narrow.column(EVENT_TIME)))[-most:]
        if not at_ms:
            return []
        within = between(EVENT_TIME, at_ms[0], at_ms[-1])
        rows = self.reader.rows(name, [within, *mine], self._columns(name, spec, _OF_KEYS))
        order = [(name, "ascending") for name in (INGEST_TIME, SEQUENCE, POSITION)]
        return [LakeRecord.of(spec, row) for row in rows.sort_by(order).to_pylist()]

    def _columns(self, name: str, spec: StreamSpec, system: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of the fields that the table has, and those of the system that are needed."""
        tops = dict.fromkeys(each.partition(".")[0] for each in own_fields(spec))
        known = self.reader.columns(name)
        return (*system, *(each for each in tops if each in known))

    def _parts(self, name: str, columns: tuple[str, ...], wanted: RecordQuery, around_ms: int) -> Iterator[pa.Table]:
        """Rows with the ids that are wanted: those within the bounds at once, else day by day.

        First only ids and times are read, then whole rows at these times.
        """
        mine = one_of(RECORD_ID, wanted.ids)
        narrow: Iterable[pa.Table]
        if wanted.since_ms is not None and wanted.until_ms is not None:
            within = between(EVENT_TIME, wanted.since_ms - 1, wanted.until_ms + 1)  # finer units are rounded
            narrow = [self.reader.rows(name, [within, mine], (EVENT_TIME,))]
        else:
            narrow = self.reader.days_around(name, [mine], (EVENT_TIME,), around_ms)
        for rows in narrow:
            at_ms = sorted(set(_ms(rows.column(EVENT_TIME))))
            if not at_ms:
                yield rows.slice(0, 0)  # so that the caller looks at the clock
                continue
            at = [between(EVENT_TIME, at_ms[0], at_ms[-1]), one_of(EVENT_TIME, map(instant_literal, at_ms))]
            yield self.reader.rows(name, [*at, mine], columns)

    def _instants(self, name: str, mine: Any) -> list[int]:
        """The event times of alerts that match; only ids and times are read."""
        if not self.reader.has(name):
            return []
        rows = self.reader.rows(name, [mine], ("alert_id", "event_time"))
        return _ms(rows.column("event_time"))

    def _alerts(self, name: str, where: Iterable[Any]) -> list[LakeAlert]:
        if not self.reader.has(name):
            return []
        return list(_bodies(self.reader.rows(name, where, _BODY)))


_OF_KEYS = (RECORD_ID, EVENT_TIME, INGEST_TIME, LOG, SEQUENCE, POSITION)
_BODY = ("log", "position", BATCH, CHECKPOINT, "body")


def _bodies(rows: pa.Table) -> Iterator[LakeAlert]:
    for row in rows.select(_BODY).to_pylist():
        position = None if row["log"] is None or row["position"] is None else (row["log"], row["position"])
        yield LakeAlert(read_body(row["body"]), row[CHECKPOINT], row[BATCH], position)


def _place(found: tuple[LakeAlert, int]) -> tuple[str, int, int, str]:
    """The order of a list, which maintenance does not change."""
    each, table = found
    return each.alert["event_time"], each.batch, table, each.alert["alert_id"]


def _ms(column: pa.ChunkedArray) -> list[int]:
    return [each // 1_000 for each in column.cast(pa.int64()).to_pylist()]


def _may_be_in(name: str, which: AlertFilter) -> bool:
    """Whether a table may have alerts that match: corrections are in one of their own."""
    if which.corrects is not None or which.kind == "correction":
        return name == CORRECTIONS.name
    return which.kind is None or name == ALERTS.name


def _conditions(which: AlertFilter) -> list[Any]:
    names = {
        "rule_id": which.rule_id,
        "kind": which.kind,
        "severity": which.severity,
        "corrects": which.corrects,
        "rule_version": which.version,
    }
    found = [equal(name, value) for name, value in names.items() if value is not None]
    until_ms = None if which.until_ms is None else which.until_ms - 1
    return [*found, between("event_time", which.since_ms, until_ms)]


def _has_key(alert: Mapping[str, Any], key: Mapping[str, str]) -> bool:
    own: Mapping[str, Any] = alert["key"]
    return all(name in own and _text(own[name]) == value for name, value in key.items())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_key(spec: StreamSpec, key: Mapping[str, Any]) -> Any:
    """The part of a key that files are planned by: fields at the top of the record, of the type of their value."""
    own = own_fields(spec)
    return all_of(
        equal(name, value)
        for name, value in key.items()
        if name in own and "." not in name and not own[name].is_list and type(value) in _PLACES.get(own[name].kind, ())
    )
