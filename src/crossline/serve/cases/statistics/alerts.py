"""Counts alerts of rules as they come, in the transaction that takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import orjson

from crossline.analysis.health.stability import bucket_of
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.facts import AlertFacts
from crossline.serve.cases.statistics.schema import DAY_MS, HOUR_MS
from crossline.serve.cases.statistics.verdicts import LabelledAlert, standing_verdict, weigh

_DAY = """INSERT INTO rule_days (day, rule_id, version, kind, alerts, hidden, amount) VALUES (?, ?, ?, ?, 1, ?, ?)
ON CONFLICT DO UPDATE SET alerts = alerts + 1, hidden = hidden + excluded.hidden, amount = amount + excluded.amount"""
_HOUR = """INSERT INTO rule_hours (hour, rule_id, kind, alerts) VALUES (?, ?, ?, 1)
ON CONFLICT DO UPDATE SET alerts = alerts + 1"""
_VALUE = """INSERT INTO rule_values (day, rule_id, version, bucket, alerts) VALUES (?, ?, ?, ?, 1)
ON CONFLICT DO UPDATE SET alerts = alerts + 1"""
_PAIR = """INSERT INTO rule_pairs (day, rule_id, other, {0}) VALUES (?, ?, ?, 1)
ON CONFLICT DO UPDATE SET {0} = {0} + 1"""
_ON_RECORD = """SELECT rule_id FROM alerts WHERE stream = :stream AND record_id = :record_id AND alert_id != :alert_id
UNION SELECT rule_id FROM asides WHERE stream = :stream AND record_id = :record_id AND alert_id != :alert_id"""
# For how many days each is kept.
KEPT_DAYS = {
    "rule_entities": 10,
    "cooled_records": 10,
    "rule_cooled": 35,
    "rule_values": 35,
    "rule_pairs": 35,
    "rule_days": 400,
    "rule_labels": 400,
}
HOURS_KEPT_DAYS, ASIDES_KEPT_DAYS = 4, 100


def caseless_kind(alert: Mapping[str, Any]) -> str:
    """``shadow`` or ``feed`` for an alert that opens no case."""
    return "shadow" if alert["kind"] == "shadow" else "feed"


def count_alert(file: CaseFile, facts: AlertFacts, value: Any, *, hidden: bool = False) -> None:
    """Count an alert that was just kept. ``value``: its figure; ``hidden``: a suppression hides it."""
    _count(file, facts, "alert", value, hidden=hidden)


def count_caseless(file: CaseFile, facts: AlertFacts, kind: str, value: Any) -> None:
    """Count one that opens no case; one that was counted before changes nothing."""
    if file.rows("SELECT 1 FROM asides WHERE alert_id = ?", (facts.alert_id,)):
        return
    file.run(
        "INSERT INTO asides (alert_id, kind, stream, record_id, rule_id, rule_version, event_ms, amount, currency) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(facts.alert_id, kind, facts.stream, facts.record_id, facts.rule_id, facts.rule_version, facts.event_ms),
            *(facts.amount, facts.currency),
        ),
    )
    _count(file, facts, kind, value, hidden=False)


def _count(file: CaseFile, facts: AlertFacts, kind: str, value: Any, *, hidden: bool) -> None:
    day, rule = facts.event_ms // DAY_MS, (facts.rule_id, facts.rule_version)
    file.run(_DAY, (day, *rule, kind, int(hidden), float(facts.amount or 0)))
    file.run(_HOUR, (facts.event_ms // HOUR_MS, facts.rule_id, kind))
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        file.run(_VALUE, (day, *rule, bucket_of(value)))
    _pairs(file, facts, day)
    verdict = standing_verdict(file, facts.stream, facts.record_id)
    if verdict is not None:
        amount, currency = facts.amount, facts.currency
        weigh(
            file, LabelledAlert(facts.rule_id, facts.rule_version, kind, facts.event_ms, amount, currency), verdict, 1
        )


def _pairs(file: CaseFile, facts: AlertFacts, day: int) -> None:
    """The rules that it shares its record and its entity with, each once a record and once a day."""
    mine = facts.rule_id
    where = {"stream": facts.stream, "record_id": facts.record_id, "alert_id": facts.alert_id}
    met = {row["rule_id"] for row in file.rows(_ON_RECORD, where)}
    if mine not in met:
        _meet(file, "records", day, mine, met)
    entity = orjson.dumps(dict(facts.key)).decode()
    here = file.rows("SELECT rule_id FROM rule_entities WHERE day = ? AND entity = ?", (day, entity))
    met = {row["rule_id"] for row in here}
    if mine not in met:
        file.run("INSERT INTO rule_entities (day, entity, rule_id) VALUES (?, ?, ?)", (day, entity, mine))
        _meet(file, "entities", day, mine, met)


def _meet(file: CaseFile, what: str, day: int, mine: str, others: set[str]) -> None:
    put = _PAIR.format(what)
    file.run(put, (day, mine, mine))
    for each in others:
        file.run(put, (day, mine, each))
        file.run(put, (day, each, mine))


def count_led(file: CaseFile, alert_id: str, decision: Mapping[str, Any]) -> None:
    """The first decision on the record of an alert came: on which rule it rests first."""
    reasons = decision.get("reasons") or ()
    if decision.get("kind") != "decision" or not reasons:
        return
    found = file.rows("SELECT rule_id, event_ms FROM alerts WHERE alert_id = ? AND led IS NULL", (alert_id,))
    for each in found:
        leads = str(reasons[0]["rule_id"])
        file.run("UPDATE alerts SET led = ? WHERE alert_id = ?", (leads, alert_id))
        if leads != each["rule_id"]:
            file.run(_PAIR.format("led"), (each["event_ms"] // DAY_MS, each["rule_id"], leads))


def count_retracted(file: CaseFile, table: str, alert_id: str, *, retracted: bool) -> None:
    """An alert was retracted, or reinstated; ``table``: ``alerts`` or ``asides``, where it already reports it."""
    kind = "kind" if table == "asides" else "'alert'"
    (row,) = file.rows(
        f"SELECT rule_id, rule_version, {kind} AS kind, event_ms, amount, currency, stream, record_id FROM {table} "  # noqa: S608 - our own names
        "WHERE alert_id = ?",
        (alert_id,),
    )
    alert = LabelledAlert(*(row[name] for name in LabelledAlert.__slots__))
    more = 1 if retracted else -1
    file.run(
        "UPDATE rule_days SET retracted = retracted + ?, amount = amount - ? WHERE day = ? AND rule_id = ? "
        "AND version = ? AND kind = ?",
        (
            *(more, more * float(alert.amount or 0), alert.event_ms // DAY_MS),
            *(alert.rule_id, alert.rule_version, alert.kind),
        ),
    )
    verdict = standing_verdict(file, row["stream"], row["record_id"])
    if verdict is not None:
        weigh(file, alert, verdict, -more)


def retract_caseless(file: CaseFile, alert_id: str, *, retracted: bool) -> None:
    """A correction of an alert that opened no case; of one that is not known nothing happens."""
    found = file.rows("SELECT retracted FROM asides WHERE alert_id = ?", (alert_id,))
    if found and bool(found[0]["retracted"]) is not retracted:
        file.run("UPDATE asides SET retracted = ? WHERE alert_id = ?", (int(retracted), alert_id))
        count_retracted(file, "asides", alert_id, retracted=retracted)


def forget(file: CaseFile, now_ms: int) -> None:
    """Remove what is older than it is kept."""
    for table, days in KEPT_DAYS.items():
        file.run(f"DELETE FROM {table} WHERE day < ?", (now_ms // DAY_MS - days,))  # noqa: S608 - our own names
    file.run("DELETE FROM rule_hours WHERE hour < ?", (now_ms // HOUR_MS - 24 * HOURS_KEPT_DAYS,))
    file.run("DELETE FROM asides WHERE event_ms < ?", (now_ms - ASIDES_KEPT_DAYS * DAY_MS,))
