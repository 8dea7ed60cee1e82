"""What was known at an instant: the rows of batches that were delivered by then.

It holds for any instant since the lake began, however few snapshots are kept. Records, alerts and decisions are read
slice by slice in order of time: corrections and revisions have the time of what they correct, so a slice has both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.lake.reading import LakeReader
from crossline.lake.tables.row_filters import between, equal
from crossline.lake.tables.table_layouts import (
    ALERTS,
    BATCH,
    CORRECTIONS,
    DECISIONS,
    DELIVERED,
    DUPLICATE,
    EVENT_TIME,
    RULE_EVENTS,
    records_table,
)

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from crossline.lake.lookup.ordered_scan import OrderedScan, TimeSlice

Row = dict[str, Any]


class KnownRows(StrEnum):
    """What can be listed as it was known."""

    RECORDS = "records"
    ALERTS = "alerts"
    DECISIONS = "decisions"


_TABLES = {
    KnownRows.RECORDS: (),
    KnownRows.ALERTS: (ALERTS.name, CORRECTIONS.name),
    KnownRows.DECISIONS: (DECISIONS.name,),
}
_STATES = ("published", "status_changed", "ended", "tripped")


@dataclass(frozen=True, slots=True)
class LakeAt:
    """The lake as it was known at ``at_ms``, in epoch milliseconds."""

    reader: LakeReader
    at_ms: int

    def records(self, stream: str, where: Iterable[BooleanExpression] = ()) -> pa.Table:
        """The records of a stream; a record that came again is there once."""
        return self._rows(records_table(stream), [equal(DUPLICATE, value=False), *where])

    def alerts(self, where: Iterable[BooleanExpression] = ()) -> list[Row]:
        """The alerts that stood then, after the corrections that had come by then, in order of event time."""
        return list(self.listed(KnownRows.ALERTS, where=where))

    def decisions(self, where: Iterable[BooleanExpression] = ()) -> list[Row]:
        """The decisions that stood then: of a decision that was revised the last revision; in order of event time."""
        return list(self.listed(KnownRows.DECISIONS, where=where))

    def listed(
        self,
        what: KnownRows,
        stream: str | None = None,
        last: int | None = None,
        where: Iterable[BooleanExpression] = (),
    ) -> Iterator[Row]:
        """What was known, in order of event time, in memory for one slice.

        Args:
            what: Records, alerts or decisions.
            stream: The stream of records.
            last: Only the last so many; None: all.
            where: Further conditions that hold for all rows.
        """
        tables = [records_table(stream)] if stream is not None else list(_TABLES[what])
        more = [equal(DUPLICATE, value=False)] if what is KnownRows.RECORDS else []
        scan = self.reader.in_order(tables, [between(DELIVERED, None, self.at_ms), *more, *where])
        slices = list(scan.slices()) if last is None else []
        skipped = 0
        if last is not None:
            rows = 0
            for part in scan.slices(newest_first=True):
                slices.append(part)
                rows += self._count(what, scan, part)
                if rows >= last:
                    break
            slices.reverse()
            skipped = max(0, rows - last)
        return itertools.islice((row for part in slices for row in self._of_slice(what, scan, part)), skipped, None)

    def _count(self, what: KnownRows, scan: OrderedScan, part: TimeSlice) -> int:
        if what is KnownRows.RECORDS:
            return sum(len(rows) for rows in scan.rows(part, (EVENT_TIME,)))
        return sum(1 for _ in self._of_slice(what, scan, part))

    def _of_slice(self, what: KnownRows, scan: OrderedScan, part: TimeSlice) -> Iterable[Row]:
        if what is KnownRows.RECORDS:
            return (row for rows in scan.rows(part, ("*",)) for batch in rows.to_batches() for row in batch.to_pylist())
        found: list[tuple[Any, int, int, Row]] = []
        for number, rows in enumerate(scan.rows(part, (BATCH, DELIVERED, "body"))):
            columns = (rows.column(name).to_pylist() for name in (DELIVERED, BATCH, "body"))
            found += [(at, batch, number, read_body(text)) for at, batch, text in zip(*columns, strict=True)]
        bodies = [body for *_, body in sorted(found, key=lambda each: each[:3])]  # in the order of emission
        stood = current_states(bodies) if what is KnownRows.ALERTS else _decided(bodies)
        return sorted(stood, key=lambda each: str(each["event_time"]))

    def rules(self) -> list[Row]:
        """The rule versions that were known then: id, version, status, since when it is in force, who published it."""
        found: dict[tuple[str, int], Row] = {}
        for _, event in self._bodies(RULE_EVENTS.name, []):
            rule_id, version = event.get("rule_id"), event.get("version") or 0
            if event["event"] not in _STATES or rule_id is None:
                continue
            fresh: Row = {"rule_id": rule_id, "version": version, "status": None, "who": None}
            row = found.setdefault((rule_id, version), fresh)
            row |= {key: event[key] for key in ("status", "who") if event.get(key) is not None}
            if event["event"] in {"ended", "tripped"}:
                row["status"] = event["event"]
            since_ms = event.get("effective_from_ms")
            row["effective_from"] = None if since_ms is None else format_instant(since_ms)
        return list(found.values())

    def counts(self) -> Mapping[str, int]:
        """How many rows each table had."""
        return {
            layout.name: self.reader.count(layout.name, [between(DELIVERED, None, self.at_ms)])
            for layout in self.reader.layouts()
            if layout.name != "watermarks"
        }

    def _bodies(self, name: str, where: list[BooleanExpression]) -> Iterator[tuple[int, Row]]:
        """The batch and the body of each row."""
        rows = self._rows(name, where, (BATCH, DELIVERED, "body")).sort_by([(DELIVERED, "ascending")])
        for batch, body in zip(rows.column(BATCH).to_pylist(), rows.column("body").to_pylist(), strict=True):
            yield batch, read_body(body)

    def _rows(self, name: str, where: Iterable[BooleanExpression], columns: tuple[str, ...] = ("*",)) -> pa.Table:
        return self.reader.rows(name, [between(DELIVERED, None, self.at_ms), *where], columns)


def _decided(bodies: Iterable[Row]) -> list[Row]:
    """Decisions in the order of their delivery, each as its last revision."""
    found: dict[str, Row] = {}
    first_of: dict[str, str] = {}  # by revision, the decision that it revises in the end
    for body in bodies:
        decision_id: str = body["decision_id"]
        revises: str | None = body.get("revises")
        if revises is None:
            found.setdefault(decision_id, body)
            continue
        first = first_of.get(revises, revises)
        first_of[decision_id], found[first] = first, body
    return list(found.values())


def read_body(text: str) -> Row:
    """The alert, decision or event of a row. Alerts may have integers of more than 64 bits, which are read exactly."""
    found: Row = orjson.loads(text)
    return read_alert(text) if "evidence" in found else found
