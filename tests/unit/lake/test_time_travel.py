"""What was known at an instant: rows by their delivery, alerts after corrections, decisions after revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossline.backtest.record_search import RecordQuery
from crossline.lake.lookup.alert_lookup import AlertLookup
from crossline.lake.time_travel import LakeAt
from unit.lake.lake_kit import START_MS, SpooledPipeline, alert, payment

DELIVERED_MS = 100  # after a batch was planned: batch n is delivered at START_MS + n + 100


def decision(name: str, what: str, **fields: Any) -> dict[str, Any]:
    at = "2026-01-01T00:00:01.000Z"
    return {
        "schema_version": 1,
        "decision_id": name,
        "kind": "decision",
        "stream": "payments",
        "record_id": "p00001",
        "decision": what,
        "score": 40,
        "reasons": [{"rule_id": "burst", "rule_version": 1}],
        "policy_version": 1,
        "rules_digest": "d",
        "event_time": at,
        "ingest_time": at,
        "decided_at": at,
        **fields,
    }


def event(kind: str, version: int, status: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "event": kind,
        "at": "2026-01-01T00:00:00.000Z",
        "rule_id": "burst",
        "version": version,
        "status": status,
        "effective_from_ms": START_MS,
        "who": "ann",
    }


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    made = SpooledPipeline(tmp_path)
    corrects = {"kind": "correction", "corrects": "alert-1"}
    amended = alert(1, **corrects, alert_id="c1", outcome="amended", value_before=10, value=11, caused_by="p00002")
    retracted = alert(1, **corrects, alert_id="c2", outcome="retracted", value=None)
    first = decision("d1", "block")
    revision = decision("d2", "allow", kind="revision", revises="d1", because="c2")
    again = decision("d3", "review", kind="revision", revises="d2", because="c3")
    made.batch(
        [payment(1, START_MS)], alerts=[alert(1)], decisions=[first], rule_events=[event("published", 1, "active")]
    )
    made.batch([payment(1, START_MS), payment(2, START_MS + 5)], alerts=[{**amended}])
    made.batch([payment(3, START_MS + 9)], alerts=[retracted], decisions=[revision])
    made.batch([], decisions=[again], rule_events=[event("status_changed", 1, "retired")])
    made.write_all()
    return made


def at(pipeline: SpooledPipeline, batch: int) -> LakeAt:
    """As known once ``batch`` was delivered."""
    return LakeAt(pipeline.reader(), START_MS + batch + DELIVERED_MS)


def test_before_the_first_batch_nothing_is_known(pipeline: SpooledPipeline) -> None:
    view = LakeAt(pipeline.reader(), START_MS + DELIVERED_MS - 1)
    assert (len(view.records("payments")), view.alerts(), view.decisions(), view.rules()) == (0, [], [], [])
    assert set(view.counts().values()) == {0}


def test_alerts_stand_as_corrected_by_then(pipeline: SpooledPipeline) -> None:
    found = [[(each["alert_id"], each["value"]) for each in at(pipeline, batch).alerts()] for batch in range(4)]
    assert found == [[("alert-1", 10)], [("alert-1", 11)], [], []]


def test_decisions_stand_as_revised_by_then(pipeline: SpooledPipeline) -> None:
    found = [[each["decision"] for each in at(pipeline, batch).decisions()] for batch in range(4)]
    assert found == [["block"], ["block"], ["allow"], ["review"]]


def test_rules_have_the_status_of_then(pipeline: SpooledPipeline) -> None:
    found = [[(each["version"], each["status"], each["who"]) for each in at(pipeline, n).rules()] for n in (0, 3)]
    assert found == [[(1, "active", "ann")], [(1, "retired", "ann")]]


def test_records_are_those_that_had_come(pipeline: SpooledPipeline) -> None:
    found = [sorted(at(pipeline, n).records("payments").column("_record_id").to_pylist()) for n in range(3)]
    assert found == [["p00001"], ["p00001", "p00001", "p00002"], ["p00001", "p00001", "p00002", "p00003"]]
    assert at(pipeline, 1).counts()["records_payments"] == 3


def test_the_records_of_an_alert_are_found_at_any_age(pipeline: SpooledPipeline) -> None:
    lookup = AlertLookup(pipeline.reader())
    wanted = RecordQuery(pipeline.config.streams["payments"], ["p00002", "p00003"], {}, START_MS, START_MS + 9)
    rows = lookup.records("payments", wanted, START_MS, 0.0)
    assert {name: row.fields["cents"] for name, row in rows.items()} == {"p00002": 20, "p00003": 30}
    year_ms = 365 * 86_400_000
    later = RecordQuery(wanted.spec, wanted.ids, {}, START_MS + year_ms, START_MS + year_ms)
    assert lookup.records("payments", later, START_MS, 0.0) == {}
