"""Lists of alerts and decisions of a lake, of any age, in order of event time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crossline.basics.times import parse_instant_ms
from crossline.io.stores.protocol import AlertFilter, DecisionFilter
from crossline.lake.lookup.alert_lookup import AlertLookup
from crossline.lake.tables.row_filters import between, equal, not_equal, one_of
from crossline.lake.tables.table_layouts import BATCH, CORRECTIONS, DECISIONS
from crossline.lake.time_travel import Row, read_body

PIECE = 200  # alerts whose corrections are read at once
STANDING = "standing"


@dataclass(frozen=True, slots=True)
class LakeHistory:
    """Lists what a lake has, read as far as it is taken."""

    lookup: AlertLookup

    def alerts(self, which: AlertFilter, *, newest_first: bool = True) -> Iterator[Row]:
        """Alerts and corrections that match, each with ``status``: what its corrections made of it in the end.

        Args:
            which: The filter; the lake does not filter by ``batches``.
            newest_first: Whether the latest event times come first.
        """
        found = self.lookup.alerts(which, newest_first=newest_first)
        while piece := [alert for alert, _ in zip(found, range(PIECE), strict=False)]:
            words = self._last_words(piece)
            yield from ({**alert, "status": words.get(alert["alert_id"], STANDING)} for alert in piece)

    def decisions(self, which: DecisionFilter, decision_id: str | None = None) -> Iterator[Row]:
        """Decisions and revisions as they were delivered, the latest event times first.

        Args:
            which: The filter; the lake does not filter by ``batches``.
            decision_id: Only the decision with this id, and its revisions.
        """
        reader = self.lookup.reader
        names = {"decision": which.decision, "stream": which.stream, "record_id": which.record_id}
        where = [equal(name, value) for name, value in names.items() if value is not None]
        if which.but_allowed:
            where.append(not_equal("decision", "allow"))
        until_ms = None if which.until_ms is None else which.until_ms - 1
        where.append(between("event_time", which.since_ms, until_ms))
        if decision_id is not None:
            where += self._of_decision(decision_id)
        scan = reader.in_order([DECISIONS.name], where)
        for part in scan.slices(newest_first=True):
            rows = [row for table in scan.rows(part, (BATCH, "decision_id", "body")) for row in table.to_pylist()]
            rows.sort(key=lambda row: (row["event_time"], row[BATCH], row["decision_id"]), reverse=True)
            bodies = (read_body(row["body"]) for row in rows)
            yield from (each for each in bodies if decision_id is None or _is_of(each, decision_id))

    def _of_decision(self, decision_id: str) -> list[Any]:
        """The instant of a decision, whose revisions have the same; only ids and times are read."""
        reader = self.lookup.reader
        if not reader.has(DECISIONS.name):
            return []
        rows = reader.rows(DECISIONS.name, [equal("decision_id", decision_id)], ("event_time",))
        at_us = rows.column("event_time").cast(pa.int64()).to_pylist()
        if not at_us:
            return [equal("decision_id", decision_id)]
        return [between("event_time", at_us[0] // 1_000, at_us[0] // 1_000)]

    def _last_words(self, alerts: Sequence[Row]) -> dict[str, str]:
        """By the id of an alert the outcome of its last correction."""
        reader = self.lookup.reader
        if not reader.has(CORRECTIONS.name):
            return {}
        at_ms = [parse_instant_ms(each["event_time"]) for each in alerts]
        within = between("event_time", min(at_ms), max(at_ms))
        ids = one_of("corrects", [each["alert_id"] for each in alerts])
        rows = reader.rows(CORRECTIONS.name, [within, ids], (BATCH, "corrects", "outcome")).sort_by(BATCH)
        return dict(zip(rows.column("corrects").to_pylist(), rows.column("outcome").to_pylist(), strict=True))


def _is_of(decision: Row, decision_id: str) -> bool:
    return decision["decision_id"] == decision_id or decision.get("revises") == decision_id
