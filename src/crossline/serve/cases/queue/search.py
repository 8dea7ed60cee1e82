"""The one search: alerts, cases and entities by words, ids and numbers; each at a bounded cost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.basics.times import instant_text
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.links.values import Entity
from crossline.serve.cases.queue import case_search, queries
from crossline.serve.cases.rows import PREFIX
from crossline.serve.cases.summary import severity_word

LOOKED_AT_MAX, FIELDS_MAX = 500, 50
_ALERTS = """SELECT a.alert_id, a.stream, a.record_id, a.rule_id, a.severity, a.message, a.event_ms,
(SELECT max(case_seq) FROM case_alerts WHERE alert_id = a.alert_id) AS case_seq FROM alerts AS a WHERE {} LIMIT ?"""
_WORDS = """a.number IN (SELECT r / 2 FROM (SELECT rowid AS r FROM texts WHERE texts MATCH ? ORDER BY rowid DESC
LIMIT ?) WHERE r % 2 = 0) ORDER BY a.number DESC"""
# From one field to the next by the key of the table, whatever each has.
_FIELDS = """WITH RECURSIVE f(name) AS (SELECT min(field) FROM case_ties UNION ALL
SELECT (SELECT min(field) FROM case_ties WHERE field > f.name) FROM f WHERE f.name IS NOT NULL)
SELECT name FROM f WHERE name IS NOT NULL LIMIT ?"""
_VALUES = """SELECT value, count(*) AS n FROM case_ties WHERE field = ? AND value >= ? AND value < ?
GROUP BY value ORDER BY value LIMIT ?"""
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found, in each kind the latest first. ``more``: kinds with further results."""

    cases: Sequence[dict[str, Any]] = ()
    alerts: Sequence[dict[str, Any]] = ()
    entities: Sequence[tuple[Entity, int]] = ()
    more: frozenset[str] = field(default_factory=frozenset)


def search_all(file: CaseFile, text: str, limit: int) -> SearchResult:
    """Cases and alerts in which all words of ``text`` stand, and entities whose value begins with it."""
    text = text.strip()
    with file.reading():
        rows = sorted(case_search.matching_rows(file, text), reverse=True)
        cases = queries.listed(file, rows[:limit])
        alerts = [_alert(each) for each in _alerts(file, text, limit + 1)]
        entities = list(_entities(file, text, limit + 1))
    parts: dict[str, Sequence[Any]] = {"cases": rows, "alerts": alerts, "entities": entities}
    more = frozenset(name for name, some in parts.items() if len(some) > limit)
    return SearchResult(cases, alerts[:limit], entities[:limit], more)


def the_alert(file: CaseFile, alert_id: str) -> dict[str, Any] | None:
    """The alert with exactly this id; None if no case knows it."""
    rows = file.rows(_ALERTS.format("a.alert_id = ?"), (alert_id, 1))
    return _alert(rows[0]) if rows else None


def having(file: CaseFile, value: str) -> list[Entity]:
    """The entities with exactly this value."""
    query = "SELECT 1 FROM case_ties WHERE field = ? AND value = ? LIMIT 1"
    return [(name, value) for name in fields(file) if file.rows(query, (name, value))]


def fields(file: CaseFile) -> list[str]:
    """The fields of entities."""
    return [each["name"] for each in file.rows(_FIELDS, (FIELDS_MAX,)) if "," not in each["name"]]


def _alerts(file: CaseFile, text: str, limit: int) -> list[sqlite3.Row]:
    for match in case_search.matches(file, text):
        rows = file.rows(_ALERTS.format(_WORDS), (match, LOOKED_AT_MAX, limit))
        if rows:
            return rows
    return []


def _entities(file: CaseFile, text: str, limit: int) -> Iterator[tuple[Entity, int]]:
    """Those of each field in turn; a text of several words is the beginning of none."""
    if not text or " " in text:
        return
    left = limit
    for name in fields(file):
        for each in file.rows(_VALUES, (name, text, text + _LAST, left)) if left else ():
            left -= 1
            yield (name, each["value"]), each["n"]


def _alert(row: sqlite3.Row) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("alert_id", "stream", "record_id", "rule_id", "message")},
        "severity": severity_word(row["severity"]),
        "event_time": instant_text(row["event_ms"]),
        "case_number": None if row["case_seq"] is None else f"{PREFIX}{row['case_seq']}",
    }
