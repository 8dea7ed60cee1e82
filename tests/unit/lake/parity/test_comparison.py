"""Comparisons worked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossline.lake.parity.comparison import compared, sampled_records
from crossline.lake.parity.report import FILE, AlertDifference, ParityReport, RuleParity, read_report, write_report
from crossline.lake.parity.sampling import AlertSample
from unit.lake.lake_kit import alert


def sample(*alerts: dict[str, Any]) -> AlertSample:
    found = AlertSample(100)
    for each in alerts:
        found.add(each)
    return found


def test_values_evidence_and_missing_alerts() -> None:
    """1 is the same but for its delivery, 2 has another value and window, 3 and 4 are missing on one side each."""
    stream = sample(alert(1, delivered_at="x"), alert(2), alert(3))
    lake = sample(alert(1, detected_at="y"), alert(2, value=11, window_start="2026-01-01T00:00:00.500Z"), alert(4))
    answers = {
        ("payments", "p00001"): {"burst": {"value": 10}},
        ("payments", "p00002"): {"burst": {"value": 9}},
        ("payments", "p00003"): {},
        ("payments", "p00004"): {"burst": {"value": 10}},
    }
    assert sampled_records(stream, lake) == {("payments", f"p0000{number}") for number in (1, 2, 3)}
    found = compared("burst", stream, lake, answers)
    assert (found.alerts, found.sampled, found.equal, found.answered, found.answered_equal) == (3, 4, 1, 3, 1)
    assert found.differ == 5
    assert set(found.differences) == {
        AlertDifference("alert-2", "p00002", "lake", "value, window_start"),
        AlertDifference("alert-2", "p00002", "api", "value"),
        AlertDifference("alert-3", "p00003", "lake", "only in the stream"),
        AlertDifference("alert-3", "p00003", "api", "no figure"),
        AlertDifference("alert-4", "p00004", "lake", "only in the lake"),
    }
    assert compared("other", stream, lake, answers) == RuleParity("other", 0, 0, 0, 0, 0)


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    rule = RuleParity("burst", 3, 2, 1, 1, 1, (AlertDifference("a", "p", "lake", "value"),))
    report = ParityReport("pay", "2026-01-01T00:00:00.000Z", "s", "u", 7, (rule,))
    assert read_report(tmp_path, "pay") is None
    write_report(report, tmp_path / "serve")
    assert read_report(tmp_path / "serve", "pay") == report
    assert read_report(tmp_path / "serve", "other") is None
    assert not report.same
    for damaged in ("{", "{}", "[]", '{"rules": [{}]}'):
        (tmp_path / "serve" / FILE).write_text(damaged)
        assert read_report(tmp_path / "serve", "pay") is None
