"""Counts what suppressions hid, in the transaction that takes an alert or a label."""

from __future__ import annotations

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.facts import AlertFacts
from crossline.serve.cases.statistics.verdicts import standing_verdict

_HIDDEN = """UPDATE suppressions SET hidden = hidden + 1, hidden_ms = max(coalesce(hidden_ms, ?), ?),
frauds = frauds + ? WHERE number = ?"""
_OTHERS = """SELECT 1 FROM alerts WHERE stream = ? AND record_id = ? AND suppressed_by = ? AND alert_id != ? LIMIT 1"""
_OF_RECORD = """UPDATE suppressions SET frauds = frauds + ? WHERE number IN
(SELECT suppressed_by FROM alerts WHERE stream = ? AND record_id = ? AND suppressed_by IS NOT NULL)"""


def count_hidden(file: CaseFile, facts: AlertFacts, suppression: int) -> None:
    """An alert that was just kept is hidden; its record counts as fraud once, however many alerts are on it."""
    body = standing_verdict(file, facts.stream, facts.record_id)
    others = file.rows(_OTHERS, (facts.stream, facts.record_id, suppression, facts.alert_id))
    fraud = int(body is not None and body.is_fraud and not others)
    file.run(_HIDDEN, (facts.event_ms, facts.event_ms, fraud, suppression))


def count_hidden_fraud(file: CaseFile, stream: str, record_id: str, *, was: bool, now: bool) -> None:
    """What is known of a record changed: whether it is fraud."""
    if was is not now:
        file.run(_OF_RECORD, (1 if now else -1, stream, record_id))
