"""Counts labelled alerts of rules, in the transaction that labels their records."""

from __future__ import annotations

from dataclasses import dataclass

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.statistics.schema import DAY_MS
from crossline.serve.cases.values import Label

_CELL = """INSERT INTO rule_labels (day, rule_id, version, kind, label_day, is_fraud, currency, alerts, amount)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET alerts = alerts + excluded.alerts, amount = amount + excluded.amount"""
_ON_RECORD = """SELECT rule_id, rule_version, 'alert' AS kind, event_ms, amount, currency FROM alerts
WHERE stream = :stream AND record_id = :record_id AND retracted = 0
UNION ALL SELECT rule_id, rule_version, kind, event_ms, amount, currency FROM asides
WHERE stream = :stream AND record_id = :record_id AND retracted = 0"""
_NEWEST = """SELECT is_fraud, at_ms, withdrawn FROM labels WHERE stream = ? AND record_id = ?
ORDER BY version DESC LIMIT 1"""


@dataclass(frozen=True, slots=True)
class LabelledAlert:
    """What is counted of an alert."""

    rule_id: str
    rule_version: int
    kind: str
    event_ms: int
    amount: str | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class StandingVerdict:
    """A verdict, and when it was given, in epoch milliseconds."""

    is_fraud: bool
    at_ms: int


def standing_verdict(file: CaseFile, stream: str, record_id: str) -> StandingVerdict | None:
    """The last word on a record; None if there is none."""
    for row in file.rows(_NEWEST, (stream, record_id)):
        return None if row["withdrawn"] else StandingVerdict(bool(row["is_fraud"]), row["at_ms"])
    return None


def count_label(file: CaseFile, before: Label | None, label: Label) -> None:
    """A label was added, after ``before``, the one that stood; of its record's alerts the count follows it."""
    where = {"stream": label.stream, "record_id": label.record_id}
    for row in file.rows(_ON_RECORD, where):
        alert = LabelledAlert(*row)
        if before is not None:
            weigh(file, alert, StandingVerdict(before.is_fraud, before.at_ms), -1)
        if not label.withdrawn:
            weigh(file, alert, StandingVerdict(label.is_fraud, label.at_ms), 1)


def weigh(file: CaseFile, alert: LabelledAlert, verdict: StandingVerdict, more: int) -> None:
    """Count a labelled alert once more (1) or less (-1)."""
    amount = more * float(alert.amount or 0)
    which = (alert.event_ms // DAY_MS, alert.rule_id, alert.rule_version, alert.kind, verdict.at_ms // DAY_MS)
    file.run(_CELL, (*which, int(verdict.is_fraud), alert.currency or "", more, amount))
