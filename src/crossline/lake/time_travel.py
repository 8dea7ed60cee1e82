"""What was known at an instant: the rows of batches that were delivered by then.

It holds for any instant since the lake began, however few snapshots are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from crossline.basics.times import format_instant, parse_instant_ms
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.lake.reading import LakeReader
from crossline.lake.row_filters import between, equal, one_of
from crossline.lake.table_layouts import (
    ALERTS,
    BATCH,
    CORRECTIONS,
    DECISIONS,
    DELIVERED,
    DUPLICATE,
    EVENT_TIME,
    RECORD_ID,
    RULE_EVENTS,
    records_table,
)

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

Row = dict[str, Any]
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
        """The alerts that stood then, after the corrections that had come by then, in the order of emission."""
        conditions = list(where)
        rows = [(row, 0) for row in self._bodies(ALERTS.name, conditions)]
        rows += [(row, 1) for row in self._bodies(CORRECTIONS.name, conditions)]
        ordered = sorted(rows, key=lambda each: (each[0][0], each[1]))
        return current_states(body for (_, body), _ in ordered)

    def decisions(self, where: Iterable[BooleanExpression] = ()) -> list[Row]:
        """The decisions that stood then: of a decision that was revised the last revision."""
        found: dict[str, Row] = {}
        first_of: dict[str, str] = {}  # by revision, the decision that it revises in the end
        for _, body in sorted(self._bodies(DECISIONS.name, list(where)), key=lambda each: each[0]):
            decision_id: str = body["decision_id"]
            revises: str | None = body.get("revises")
            if revises is None:
                found.setdefault(decision_id, body)
                continue
            first = first_of.get(revises, revises)
            first_of[decision_id], found[first] = first, body
        return list(found.values())

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


def records_of_alert(reader: LakeReader, alert: Mapping[str, Any], reach_ms: int) -> list[Row]:
    """The records that an alert rests on, whatever their age, as JSON values.

    Args:
        reader: The lake.
        alert: The alert, as it was delivered.
        reach_ms: How long before the alert's record its records may be, by event time.
    """
    end_ms = parse_instant_ms(alert["event_time"])
    ids = [*dict.fromkeys([*alert["evidence"]["record_ids"], alert["record_id"]])]
    where = [between(EVENT_TIME, end_ms - reach_ms, end_ms + reach_ms), one_of(RECORD_ID, ids)]
    rows = reader.records(alert["stream"], [*where, equal(DUPLICATE, value=False)]).to_pylist()
    known = {row[RECORD_ID]: row for row in rows}
    return [known[each] for each in ids if each in known]


def read_body(text: str) -> Row:
    """The alert, decision or event of a row. Alerts may have integers of more than 64 bits, which are read exactly."""
    found: Row = orjson.loads(text)
    return read_alert(text) if "evidence" in found else found
