"""What records beyond the allowed lateness would have changed; worked by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossline.cli.main import run_command
from crossline.io.sinks.base import LateRecord
from crossline.lake.late.patient_rules import patient_rules
from crossline.lake.late.recompute import LateChange, changes, keep_changes
from crossline.lake.tables.lake_table import LakeTable, Mark
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from unit.lake.lake_kit import START_MS, SpooledPipeline, alert

MINUTE_MS = 60_000
RULES = """\
- {rule_id: burst, version: 1, rule_type: velocity, source_topic: payments, group_by: account_id, window: 10m,
   aggregation_type: count, aggregation_threshold: 3, emit: every}
- {rule_id: dear, version: 1, rule_type: threshold, source_topic: payments,
   conditions: [{field: cents, operator: ">=", value: 500}]}
- {rule_id: arrivals, version: 1, rule_type: velocity, source_topic: payments, group_by: account_id, window: 10m,
   aggregation_type: count, aggregation_threshold: 3, time_mode: processing_time}
- {rule_id: twice, version: 1, rule_type: velocity, source_topic: "rule:burst", group_by: account_id, window: 10m,
   aggregation_type: count, aggregation_threshold: 2}
- {rule_id: long, version: 1, rule_type: velocity, source_topic: payments, group_by: account_id, window: 7d,
   resolution: 1h, aggregation_type: count, aggregation_threshold: 2}
"""


def record(name: str, account: str, minute: float, cents: int = 100) -> dict[str, Any]:
    return {"id": name, "account_id": account, "at": START_MS + round(minute * MINUTE_MS), "cents": cents}


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """Three payments of a1 within ten minutes, one of a2 fourteen minutes later; then two that are too late.

    ``x`` of a1 is of minute 3, ``y`` of a3 of minute 1.
    """
    made = SpooledPipeline(tmp_path)
    (tmp_path / "pipeline.yaml").write_text(made.text)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rules.yaml").write_text(RULES)
    log = DirectoryRuleLog(tmp_path / "rules", "pay-eu", made.config.streams)
    log.start(0)
    log.close()
    made.batch([record("p1", "a1", 0), record("p2", "a1", 4), record("p3", "a1", 6), record("p4", "a2", 20)])
    late = [("x", 3), ("y", 1)]
    made.batch(
        [record("x", "a1", 3, 500), record("y", "a3", 1)],
        late=[
            LateRecord(
                "payments",
                name,
                START_MS + at * MINUTE_MS,
                START_MS + 20 * MINUTE_MS,
                (20 - at) * MINUTE_MS,
                "0001.jsonl",
                n,
                b"{}",
            )
            for n, (name, at) in enumerate(late)
        ],
    )  # fmt: skip
    made.write_all()
    return made


def command(pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, str]:
    capsys.readouterr()
    assert run_command(["lake", "late", "--pipeline", str(pipeline.root / "pipeline.yaml"), *options]) == 0
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_alerts_that_would_be_there_and_other_values(
    pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """With x, p2 is the third payment of a1 and p3 the fourth; x itself is dear. Nothing changes for a3."""
    lines = command(pipeline, capsys, "--json")[0].splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(each["outcome"], each["rule_id"], each["record_id"], each["before"], each["value"]) for each in found] == [
        ("appears", "dear", "x", None, None),
        ("appears", "burst", "p2", None, 3),
        ("changes", "burst", "p3", 3, 4),
    ]
    out, err = command(pipeline, capsys)
    assert out.count("burst") == 2
    assert "2 late records would have changed 3 alerts; 0 of these changes are new" in err
    assert "not recomputed: arrivals: on its clock, the ingest time, no record is late" in err
    assert "not recomputed: twice: it reads several streams, or the hits of a rule" in err
    assert "not recomputed: long: it cannot be judged again" in err
    rows = pipeline.reader().rows("late_changes").select(["outcome", "record_id", "value_before", "value"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        ("appears", "p2", None, 3.0),
        ("appears", "x", None, None),
        ("changes", "p3", 3.0, 4.0),
    ]


def test_only_those_that_were_delivered_in_a_span(
    pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "{" not in command(pipeline, capsys, "--from", "2026-01-02T00:00:00Z", "--json")[0]
    assert "0 late records would have changed 0 alerts" in command(pipeline, capsys, "--to", "2026-01-01T00:00:00Z")[1]
    assert run_command(["lake", "late", "--pipeline", str(pipeline.root / "pipeline.yaml"), "--from", "monday"]) == 2


def test_an_alert_that_would_have_gone() -> None:
    before, after = [alert(1), alert(2), alert(3)], [alert(2), alert(3, value=11)]
    found = [(each.outcome, each.alert["alert_id"], each.before) for each in changes(before, after)]
    assert found == [("disappears", "alert-1", None), ("changes", "alert-3", 10)]


def test_two_reports_at_once_keep_each_change_once(pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one's commit comes between the files of this one and its commit."""
    lake = pipeline.reader().lake
    mine, others = [LateChange("appears", alert(n)) for n in (1, 2)], [LateChange("appears", alert(n)) for n in (2, 3)]
    original, met = LakeTable._commit, list[int]()

    def meets_another(table: LakeTable, files: list[str], mark: Mark | None) -> None:
        if table.layout.name == "late_changes" and not met:
            met.append(0)
            met.append(keep_changes(lake, others))
        original(table, files, mark)

    monkeypatch.setattr(LakeTable, "_commit", meets_another)
    assert (keep_changes(lake, mine), met[1]) == (1, 2)
    assert keep_changes(lake, [*mine, *others]) == 0
    assert sorted(pipeline.reader().rows("late_changes").column("alert_id").to_pylist()) == [
        *("alert-1", "alert-2", "alert-3")
    ]


def test_rules_are_grouped_by_the_field_of_their_keys(pipeline: SpooledPipeline) -> None:
    body = """\
- {rule_id: pairs, version: 1, rule_type: velocity, source_topic: payments, group_by: [account_id, place.city],
   window: 10m, aggregation_type: count, aggregation_threshold: 3, late_policy: skip, allowed_lateness: 5m}
- {rule_id: shares, version: 1, rule_type: formula, source_topic: payments, when: "f > g",
   figures: {f: {count: true, group_by: account_id, window: 1h}, g: {count: true, group_by: place.city, window: 1h}}}
"""
    loaded = load_rules_text(RULES + body, "rules.yaml", pipeline.config.streams)
    rules = RuleSet.from_rules(each.rule for each in loaded)
    groups, left_out = patient_rules(rules, Defaults(), 3_600_000)
    found = {each.field: [(v.rule.rule_id, v.rule.allowed_lateness, v.rule.late_policy) for v in each.rules.versions]
             for each in groups}  # fmt: skip
    assert found == {
        None: [("dear", 3_600_000, "reevaluate")],
        "account_id": [("burst", 3_600_000, "reevaluate"), ("pairs", 3_600_000, "reevaluate")],
    }
    assert sorted(left_out) == ["arrivals", "long", "shares", "twice"]
