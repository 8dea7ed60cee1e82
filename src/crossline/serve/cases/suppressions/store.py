"""Stored suppressions: created, ended, and compared with the frauds they hid."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from crossline.basics.texts.problems import one_of, shown
from crossline.basics.times import instant_text
from crossline.serve.cases import checks
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.suppressions.conditions import OPERATORS, SuppressionCondition
from crossline.serve.cases.values import NoSuchCaseError, NotTakenError

RULES_MAX, CONDITIONS_MAX, FRAUDS_MAX = 100, 20, 100
UNTIL_MAX_MS = 366 * 86_400_000
_HID = """SELECT a.alert_id, a.stream, a.record_id, a.rule_id, a.message, a.event_ms FROM alerts AS a
JOIN labels_now AS l USING (stream, record_id) WHERE a.suppressed_by = ? AND l.is_fraud = 1
ORDER BY a.number DESC"""


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """What is to be hidden: alerts of these rules (none: of all), with this key, that meet all conditions."""

    until_ms: int
    reason: str
    rules: Sequence[str] = ()
    key: Mapping[str, str] = field(default_factory=dict)
    conditions: Sequence[SuppressionCondition] = ()

    def checked(self, now_ms: int) -> NewSuppression:
        """The same, if it is valid. Raises NotTakenError."""
        if not self.rules and not self.key and not self.conditions:
            raise NotTakenError("", "a suppression of everything", "rules, a key or conditions")
        if len(self.rules) > RULES_MAX:
            raise NotTakenError("/rules", f"{len(self.rules)} rules", f"at most {RULES_MAX}")
        for number, each in enumerate(self.rules):
            checks.text(f"/rules/{number}", each, checks.ID_MAX, least=1)
        checks.about("/key", self.key)
        checks.text("/reason", self.reason, checks.REASON_MAX, least=1)
        if not now_ms < self.until_ms <= now_ms + UNTIL_MAX_MS:
            raise NotTakenError("/until", "an instant that is over or too far off", "one within the next year")
        if len(self.conditions) > CONDITIONS_MAX:
            raise NotTakenError("/conditions", f"{len(self.conditions)} conditions", f"at most {CONDITIONS_MAX}")
        for number, condition in enumerate(self.conditions):
            _check_condition(f"/conditions/{number}", condition)
        return self


def _check_condition(pointer: str, condition: SuppressionCondition) -> None:
    checks.text(f"{pointer}/field", condition.field, checks.ID_MAX, least=1)
    if condition.operator not in OPERATORS:
        raise NotTakenError(f"{pointer}/operator", shown(condition.operator), one_of(OPERATORS))
    if condition.operator == "in" and not isinstance(condition.value, list):
        raise NotTakenError(f"{pointer}/value", shown(condition.value), "a list, for the operator in")
    if condition.operator != "in" and not isinstance(condition.value, str | int | float | bool):
        raise NotTakenError(f"{pointer}/value", shown(condition.value), "a text, a number, true or false")


def make(file: CaseFile, new: NewSuppression, who: str, now_ms: int) -> dict[str, Any]:
    """Store a suppression and return its JSON. Raises NotTakenError."""
    new.checked(now_ms)
    conditions = [{"field": each.field, "operator": each.operator, "value": each.value} for each in new.conditions]
    with file.transaction():
        number = file.run(
            "INSERT INTO suppressions (rules, entity, condition, reason, until_ms, who, at_ms, version) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
            (
                *(orjson.dumps(list(new.rules)).decode(), orjson.dumps(dict(new.key)).decode()),
                *(orjson.dumps(conditions).decode(), new.reason, new.until_ms, who, now_ms),
            ),
        )
        return as_json(_row(file, number), now_ms)


def end(file: CaseFile, number: int, version: int | None, who: str, now_ms: int) -> dict[str, Any]:
    """End it now. Raises NoSuchCaseError, NotTakenError where it has ended."""
    with file.transaction():
        row = _row(file, number)
        if row["ended_by"] is not None or row["until_ms"] <= now_ms:
            raise NotTakenError("", "a suppression that has ended", "one in force")
        if version is not None and version != row["version"]:
            raise NotTakenError("", f"version {row['version']}", f"version {version}: look at it again")
        put = "UPDATE suppressions SET ended_by = ?, until_ms = ?, version = version + 1 WHERE number = ?"
        file.run(put, (who, now_ms, number))
        return as_json(_row(file, number), now_ms)


def one(file: CaseFile, number: int, now_ms: int) -> dict[str, Any]:
    """Its JSON, with the frauds that it hid. Raises NoSuchCaseError."""
    with file.reading():
        found = as_json(_row(file, number), now_ms)
        frauds = file.rows(f"{_HID} LIMIT ?", (number, FRAUDS_MAX))
    names = ("alert_id", "stream", "record_id", "rule_id", "message")
    hid = [{**{name: each[name] for name in names}, "event_time": instant_text(each["event_ms"])} for each in frauds]
    return {**found, "frauds": hid}


def listed(file: CaseFile, now_ms: int, before: int | None, limit: int) -> list[dict[str, Any]]:
    """Those made last first, behind number ``before``."""
    with file.reading():
        found = file.rows(
            "SELECT * FROM suppressions WHERE number < ? ORDER BY number DESC LIMIT ?", (before or 2**62, limit)
        )
        return [as_json(each, now_ms) for each in found]


def as_json(row: sqlite3.Row, now_ms: int) -> dict[str, Any]:
    """As the API returns it: how many alerts it hid, and how many of those were on records labelled as fraud."""
    return {
        "suppression_id": row["number"],
        "version": row["version"],
        "in_force": row["ended_by"] is None and now_ms < row["until_ms"],
        "rules": orjson.loads(row["rules"]),
        "key": orjson.loads(row["entity"]),
        "conditions": orjson.loads(row["condition"] or "[]"),
        "reason": row["reason"],
        "until": instant_text(row["until_ms"]),
        "by": row["who"],
        "at": instant_text(row["at_ms"]),
        "ended_by": row["ended_by"],
        "hidden_count": row["hidden"],
        "hidden_last_at": None if row["hidden_ms"] is None else instant_text(row["hidden_ms"]),
        "fraud_count": row["frauds"],
    }


def _row(file: CaseFile, number: int) -> sqlite3.Row:
    found = file.rows("SELECT * FROM suppressions WHERE number = ?", (min(number, 2**62),))
    if not found:
        raise NoSuchCaseError(f"there is no suppression {number}")
    return found[0]
