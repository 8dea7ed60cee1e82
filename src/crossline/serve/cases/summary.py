"""The summary of a case's alerts: computed from them whenever they change, in the same transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson

from crossline.rules.policy.words import ACTIONS, SEVERITIES
from crossline.serve.cases.file import CaseFile

SEPARATOR = "\n"
_FACTS = """SELECT a.* FROM case_alerts AS c JOIN alerts AS a USING (alert_id)
WHERE c.case_seq = ? ORDER BY a.event_ms, a.number"""
_COLUMNS = (
    *("severity", "first_ms", "last_ms", "alert_count", "retracted_count", "money", "decision"),
    *("rules", "streams", "kinds", "summary"),
)


def next_change(file: CaseFile) -> int:
    """The number of the next change of any case, in a transaction: those who follow changes go by it."""
    file.run("UPDATE counters SET value = value + 1 WHERE name = 'changes'")
    return int(file.rows("SELECT value FROM counters WHERE name = 'changes'")[0]["value"])


def touch(file: CaseFile, seq: int) -> None:
    """Notify followers that the case changed, but not its alerts."""
    file.run("UPDATE cases SET change_no = ? WHERE seq = ?", (next_change(file), seq))


def refresh(file: CaseFile, seq: int) -> None:
    """Compute the summary of the case's alerts, in a transaction."""
    (case,) = file.rows(
        "SELECT opened_ms, (SELECT count(*) FROM case_alerts WHERE case_seq = seq) AS linked FROM cases WHERE seq = ?",
        (seq,),
    )
    values = columns_of(file.rows(_FACTS, (seq,)), case["opened_ms"], case["linked"])
    put = ", ".join(f"{name} = ?" for name in _COLUMNS)
    values_in_order = [values[name] for name in _COLUMNS]
    file.run(f"UPDATE cases SET {put}, change_no = ? WHERE seq = ?", (*values_in_order, next_change(file), seq))  # noqa: S608 - our names


def columns_of(alerts: Sequence[sqlite3.Row], opened_ms: int, linked: int) -> dict[str, Any]:
    """The columns of a case with ``alerts``, in the order of their times. ``linked``: with those known by id alone."""
    standing = [each for each in alerts if not each["retracted"]]
    shown = standing or alerts
    sums = money_of(standing)
    known = _summary_of(shown)
    return {
        "severity": max((each["severity"] for each in shown), default=-1),
        "first_ms": alerts[0]["event_ms"] if alerts else opened_ms,
        "last_ms": alerts[-1]["event_ms"] if alerts else opened_ms,
        "alert_count": linked,
        "retracted_count": len(alerts) - len(standing),
        "money": max((float(each) for each in sums.values()), default=None),
        "decision": max((each["gravest"] for each in alerts), default=-1),
        "rules": SEPARATOR.join(sorted({each["rule_id"] for each in alerts})),
        "streams": SEPARATOR.join(sorted({each["stream"] for each in alerts})),
        "kinds": SEPARATOR.join(sorted({",".join(orjson.loads(each["entity"])) for each in alerts})),
        "summary": orjson.dumps({**known, "money": {name: f"{each:f}" for name, each in sums.items()}}).decode(),
    }


def money_of(alerts: Iterable[Mapping[str, Any] | sqlite3.Row]) -> dict[str, Decimal]:
    """The amounts of distinct records, by currency."""
    amounts = {(each["stream"], each["record_id"]): each for each in alerts if each["amount"] is not None}
    sums: dict[str, Decimal] = {}
    for each in amounts.values():
        sums[each["currency"] or ""] = sums.get(each["currency"] or "", Decimal()) + Decimal(each["amount"])
    return dict(sorted(sums.items()))


def _summary_of(alerts: Sequence[sqlite3.Row]) -> dict[str, Any]:
    """The rest of the summary, which only people read."""
    if not alerts:
        return {"sentence": None, "rules": [], "entities": [], "decision": None, "money_unknown": 0}
    gravest = max(alerts, key=lambda each: (each["severity"], each["event_ms"], each["number"]))
    rules: dict[tuple[str, int], int] = {}
    entities: dict[tuple[str, str], None] = {}
    for each in alerts:
        name = (each["rule_id"], each["rule_version"])
        rules[name] = rules.get(name, 0) + 1
        entities |= dict.fromkeys(orjson.loads(each["entity"]).items())
    with_money = {(each["stream"], each["record_id"]) for each in alerts if each["amount"] is not None}
    return {
        "sentence": gravest["message"],
        "rules": [{"rule_id": name, "version": version, "count": n} for (name, version), n in sorted(rules.items())],
        "entities": [{"field": name, "value": value} for name, value in entities],
        "decision": _decision(alerts),
        "money_unknown": len({(each["stream"], each["record_id"]) for each in alerts} - with_money),
    }


def _decision(alerts: Sequence[sqlite3.Row]) -> dict[str, Any] | None:
    decided = [each for each in alerts if each["gravest"] >= 0]
    if not decided:
        return None
    return {
        "gravest": ACTIONS[max(each["gravest"] for each in decided)],
        "standing": ACTIONS[max(each["decision"] for each in decided)],
        "revised": any(each["revised"] for each in decided),
    }


def severity_word(place: int) -> str | None:
    """Of a severity's place the word; None if there is none."""
    return SEVERITIES[place] if place >= 0 else None
