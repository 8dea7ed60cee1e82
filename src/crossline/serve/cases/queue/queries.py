"""Cases in the form of the API: as rows of a list, and one with its details."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from crossline.basics.times import instant_text
from crossline.rules.policy.words import ACTIONS
from crossline.serve.cases.actions.case_state import final
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.rows import PREFIX
from crossline.serve.cases.summary import severity_word

_CASES = "SELECT * FROM cases WHERE seq IN ({})"
_ALERTS = """SELECT c.alert_id, c.stream, c.record_id, a.number, a.rule_id, a.rule_version, a.severity, a.message,
a.event_ms, a.entity, a.amount, a.currency, a.retracted, a.gravest, a.decision, a.revised
FROM case_alerts AS c LEFT JOIN alerts AS a USING (alert_id) WHERE c.case_seq = ? ORDER BY a.event_ms, c.position"""


def listed(file: CaseFile, rows: Sequence[int]) -> list[dict[str, Any]]:
    """The cases of these rows, in this order."""
    marks = ", ".join("?" * len(rows))
    found = {each["seq"]: each for each in file.rows(_CASES.format(marks), list(rows))}
    return [as_json(file, found[row]) for row in rows if row in found]


def as_json(file: CaseFile, row: sqlite3.Row) -> dict[str, Any]:
    """A case without its alerts and notes."""
    known = orjson.loads(row["summary"])
    money = known.get("money") or {}
    into = None if row["merged_into"] is None else f"{PREFIX}{final(file, row['seq'])}"
    return {
        "case_id": row["case_id"],
        "number": f"{PREFIX}{row['seq']}",
        "version": row["version"],
        "status": row["state"],
        "title": row["title"],
        "sentence": known.get("sentence") or row["title"],
        "severity": severity_word(row["severity"]),
        "rules": known.get("rules", []),
        "entities": known.get("entities", []),
        "streams": row["streams"].split("\n") if row["streams"] else [],
        "alert_count": row["alert_count"],
        "retracted_count": row["retracted_count"],
        "retracted": 0 < row["retracted_count"] == row["alert_count"],
        "first_at": instant_text(row["first_ms"]),
        "last_at": instant_text(row["last_ms"]),
        "money": [{"currency": name, "amount": amount} for name, amount in money.items()] or None,
        "money_unknown": known.get("money_unknown", 0),
        "decision": known.get("decision"),
        "assignee": row["assignee"],
        "escalated_to": row["escalated_to"],
        "snoozed_until": _instant(row["snoozed_ms"]),
        "resolved_at": _instant(row["resolved_ms"]),
        "label": None if row["verdict"] is None else "fraud" if row["verdict"] else "good",
        "merged_into": into,
        "opened_at": instant_text(row["opened_ms"]),
        "opened_by": row["opened_by"],
        "changed_at": instant_text(row["changed_ms"]),
        "changed_by": row["changed_by"],
    }


def alerts_of(file: CaseFile, seq: int) -> list[dict[str, Any]]:
    """The alerts of a case in the order of their times; of one that people linked there is only its id."""
    return [_alert(each) for each in file.rows(_ALERTS, (seq,))]


def key_of(file: CaseFile, seq: int) -> dict[str, str]:
    """The key that a case is about."""
    found = file.rows("SELECT field, value FROM case_keys WHERE case_seq = ? ORDER BY position", (seq,))
    return {each["field"]: each["value"] for each in found}


def merged_into(file: CaseFile, seq: int) -> list[int]:
    """The cases that became part of a case."""
    found = file.rows(
        "WITH RECURSIVE gone(seq) AS (VALUES (?) UNION SELECT k.seq FROM cases AS k JOIN gone AS g "
        "ON k.merged_into = g.seq) SELECT seq FROM gone WHERE seq != ? ORDER BY seq",
        (seq, seq),
    )
    return [each["seq"] for each in found]


def events_of(file: CaseFile, case_ids: Iterable[str], limit: int) -> list[dict[str, Any]]:
    """What became of these cases and their notes, in the order of time: of many the last ``limit``."""
    names = list(case_ids)
    marks = ", ".join("?" * len(names))
    found = file.rows(
        f"SELECT * FROM case_events WHERE case_id IN ({marks}) ORDER BY number DESC LIMIT ?",  # noqa: S608 - marks
        (*names, limit),
    )
    return [
        {
            "number": each["number"],
            "case_id": each["case_id"],
            "kind": each["kind"],
            "at": instant_text(each["at_ms"]),
            "by": each["who"],
            "text": each["text"],
            "version": each["version"],
            "before": orjson.loads(each["before"]),
            "after": orjson.loads(each["after"]),
        }
        for each in reversed(found)
    ]


def _alert(row: sqlite3.Row) -> dict[str, Any]:
    known = {"alert_id": row["alert_id"], "stream": row["stream"], "record_id": row["record_id"]}
    if row["number"] is None:
        return known
    decided = row["gravest"] >= 0
    return {
        **known,
        "rule_id": row["rule_id"],
        "rule_version": row["rule_version"],
        "severity": severity_word(row["severity"]),
        "message": row["message"],
        "event_time": instant_text(row["event_ms"]),
        "key": orjson.loads(row["entity"]),
        "amount": row["amount"],
        "currency": row["currency"],
        "retracted": bool(row["retracted"]),
        "decision": ACTIONS[row["decision"]] if decided else None,
        "gravest": ACTIONS[row["gravest"]] if decided else None,
        "revised": bool(row["revised"]),
    }


def _instant(ms: int | None) -> str | None:
    return None if ms is None else instant_text(ms)
