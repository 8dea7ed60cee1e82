"""Data of an entity from the stores, besides the API's route: its cases, its past 30 days, labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.io.stores.protocol import AlertFilter
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.queue.case_search import having
from crossline.serve.cases.queue.queries import listed
from crossline.serve.console.pages.entities.consequence import PAST_MS, Record, Stopped, stopped
from crossline.serve.console.pages.entities.rows import DAY_MS, DAYS
from crossline.serve.console.request import PageRequest
from crossline.serve.http.reads.decisions import found_decisions

ALERTS_MAX, SHOWN_MAX, RECORDS_MAX = 2_000, 10, 200
_LINKED = """SELECT o.field, o.value, count(DISTINCT o.case_seq) AS n FROM case_ties AS t
JOIN case_ties AS o USING (case_seq) WHERE t.field = ? AND t.value = ? AND NOT (o.field = t.field AND o.value = t.value)
AND instr(o.field, ',') = 0 GROUP BY o.field, o.value ORDER BY n DESC, o.value LIMIT ?"""
_GOOD = "SELECT is_fraud FROM labels_now WHERE stream = ? AND record_id = ?"


@dataclass(frozen=True, slots=True)
class EntityCases:
    """The cases of an entity, as in the API, and the other entities in them: field, value, cases."""

    cases: tuple[dict[str, Any], ...] = ()
    links: tuple[tuple[str, str, int], ...] = ()
    more: int = 0


def casework_of(asked: PageRequest, field: str, value: str) -> EntityCases:
    """Of the desk, where there is one."""
    desk = asked.parts.deps.desk
    if desk is None:
        return EntityCases()
    file: CaseFile = desk.file
    with file.reading():
        rows = sorted(having(file, {field: value}), reverse=True)
        found = file.rows(_LINKED, (field, value, SHOWN_MAX))
        cases = listed(file, rows[:SHOWN_MAX])
    return EntityCases(
        tuple(cases), tuple((each["field"], each["value"], each["n"]) for each in found), len(rows) - len(cases)
    )


def alerts_of_days(asked: PageRequest, key: Mapping[str, str]) -> list[dict[str, Any]]:
    """Alerts of the past 30 days as they stand after corrections, the latest first; at most ``ALERTS_MAX``."""
    since_ms = asked.parts.now_ms() - DAYS * DAY_MS
    try:
        with closing(asked.parts.deps.store()) as store:
            found = list(store.alerts(AlertFilter(key=key, since_ms=since_ms), ALERTS_MAX))
    except UsageError:
        return []  # nothing was delivered yet, so that there is no store
    return [each for each in current_states(reversed(found)) if each["kind"] == "alert"][::-1]


def consequence_of(asked: PageRequest, recent: Collection[Mapping[str, Any]]) -> Stopped:
    """Of the past 24 hours. ``recent``: alerts of that time at least, after corrections."""
    since_ms = asked.parts.now_ms() - PAST_MS
    mine = [each for each in recent if parse_instant_ms(each["event_time"]) >= since_ms]
    records = list(dict.fromkeys((str(each["stream"]), str(each["record_id"])) for each in mine))[:RECORDS_MAX]
    return stopped(mine, stands_on(asked, records), _good(asked, records), asked.parts.settings.cases.money)


def stands_on(asked: PageRequest, records: Collection[Record]) -> dict[Record, str]:
    """The decisions that stand on records; those on which none is known are left out."""
    deps, found = asked.parts.deps, dict[Record, str]()
    if not records:
        return found
    try:
        with closing(deps.store()) as store:
            for stream, record_id in records:
                decisions = found_decisions(deps, record_id, stream, None, 1, store)
                if decisions:
                    found[stream, record_id] = str((decisions[0].get("revisions") or [decisions[0]])[-1]["decision"])
    except UsageError:  # nothing was delivered yet, so that there is no store
        return found
    return found


def _good(asked: PageRequest, records: Collection[Record]) -> set[Record]:
    """Those that are labelled as no fraud."""
    desk = asked.parts.deps.desk
    if desk is None:
        return set()
    with desk.file.reading():
        labels = {record: desk.file.rows(_GOOD, record) for record in records}
    return {record for record, rows in labels.items() if rows and not rows[0]["is_fraud"]}
