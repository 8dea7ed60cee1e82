"""The health of rules as JSON: what ``GET /v1/health/rules`` answers, and what the page shows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from crossline.basics.times import instant_text
from crossline.serve.cases.statistics.queries import LABEL_DAYS
from crossline.serve.cases.statistics.schema import DAY_MS
from crossline.serve.health.sentences import notes_of, parity_text
from crossline.serve.health.values import HealthReport, RuleHealth, share_json


def report_json(report: HealthReport) -> dict[str, Any]:
    """All of it."""
    return {
        "pipeline": report.pipeline,
        "as_of": instant_text(report.at_ms),
        "counted": report.counted,
        "counted_since": None if report.since_day is None else instant_text(report.since_day * DAY_MS),
        "answered": report.answered,
        "lake_parity": report.lake_parity,
        "label_days": LABEL_DAYS,
        "calls": [each.facts.rule_id for each in report.rules if each.calls],
        "items": [rule_json(each) for each in report.rules],
        "refused": [{"source": source, "detail": detail} for source, detail in report.refused.items()],
        "next_cursor": None,
    }


def rule_json(health: RuleHealth) -> dict[str, Any]:
    """A rule."""
    facts = health.facts
    return {
        "rule_id": facts.rule_id,
        "version": facts.version,
        "rule_type": facts.rule_type,
        "severity": facts.severity,
        "status": facts.status,
        "owner": facts.owner,
        "sentence": facts.sentence,
        "changed_at": None if facts.changed_ms is None else instant_text(facts.changed_ms),
        "alerts": {
            "last_24h": health.last_24h,
            "last_7d": health.last_7d,
            "by_hour": list(health.hours),
            "by_day": list(health.days),
            "first_day": str(instant_text(health.first_day * DAY_MS))[:10],
        },
        "due": None if health.due is None else {**health.due.to_json(), "by": health.due_by},
        "rhythm": asdict(health.rhythm),
        "precision": _precision(health),
        "fraud": {name: round(amount, 2) for name, amount in health.fraud.items()},
        "cost": None if health.cost is None else _rounded(asdict(health.cost)),
        "met": [_rounded(asdict(each)) for each in health.met],
        "hidden_share": round(health.hidden, 4),
        "held_back_share": round(health.held_back, 4),
        "drift": None if health.drift is None else {**_rounded(asdict(health.drift)), "shifted": health.drift.shifted},
        "parity": None if health.parity is None else asdict(health.parity),
        "parity_text": parity_text(health),
        "kept": [_rounded(asdict(each)) for each in health.held],
        "wrong": list(health.wrong),
        "calls": health.calls,
        "notes": [asdict(each) for each in notes_of(health)],
    }


def _precision(health: RuleHealth) -> dict[str, Any]:
    found = health.corrected
    return {
        "true": health.precision.true,
        "labels": health.precision.labels,
        **share_json(health.precision),
        "corrected": {
            **share_json(found.precision),
            "labels_to_come": round(found.expected, 1),
            "left_out_days": found.young_days,
        },
    }


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(each, 4) if isinstance(each, float) else each for name, each in values.items()}
