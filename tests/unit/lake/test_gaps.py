"""Which hours of the lake a rule has not judged, and what filling them gives; worked by hand."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import CrosslineError
from crossline.cli.main import run_command
from crossline.lake.gaps import fill as gap_fill
from crossline.lake.gaps.fill import keep_fills
from crossline.lake.gaps.report import MissingRecords, RuleGap, missing_records, without
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.writing.source_reader import Gap
from crossline.rule_registry.directory import DirectoryRuleLog
from unit.lake.lake_kit import START_MS, SpooledPipeline, alert, payment

HOUR_MS = 3_600_000
RULE = """\
- {rule_id: %s, version: 1, rule_type: velocity, source_topic: %s, group_by: account_id, window: 4h,
   aggregation_type: count, aggregation_threshold: 2, emit: every, status: %s}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    """Ten payments, one an hour, of the accounts a1, a2, a0, a1, …: each has one every three hours.

    The rule ``first`` is there from the first record on, ``late`` from the fifth, ``hits`` reads the hits of ``first``
    from then on; ``late`` is paused from the eighth to the ninth.
    """
    made = SpooledPipeline(tmp_path)
    for start, end in ((0, 5), (5, 10)):
        made.batch([payment(n + 1, START_MS + n * HOUR_MS) for n in range(start, end)])
        made.write_all()
    (tmp_path / "pipeline.yaml").write_text(made.text)
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "first.yaml").write_text(RULE % ("first", "payments", "active"))
    log = DirectoryRuleLog(rules, "pay-eu", made.config.streams)
    log.start(0)
    for at, files in (
        (4, {"late": ("payments", "active"), "hits": ("rule:first", "active")}),
        (7, {"late": ("payments", "paused")}),
        (8, {"late": ("payments", "active")}),
    ):
        for name, (source, status) in files.items():
            (rules / f"{name}.yaml").write_text(RULE % (name, source, status))
        log.take_up(log.poll(), {"payments": START_MS + at * HOUR_MS - 1}, at)
    log.close()
    return made


def command(pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert run_command(["lake", "gaps", "--pipeline", str(pipeline.root / "pipeline.yaml"), *options]) == 0
    printed = capsys.readouterr()
    return printed.out or printed.err


def listed(pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str], *options: str) -> list[tuple[Any, ...]]:
    """By rule: the first and the last hour of each gap, and its records."""
    rows = [json.loads(line) for line in command(pipeline, capsys, "--json", *options).splitlines() if line]
    return [(row["rule_id"], row["from"][11:16], row["to"][11:23], row["records"]) for row in rows]


def test_hours_before_the_publication_and_while_it_was_paused(
    pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = [("hits", "00:00", "04:00:00.000", 4), ("late", "00:00", "04:00:00.000", 4)]
    expected += [("late", "07:00", "08:00:00.000", 1)]
    assert listed(pipeline, capsys) == expected
    assert listed(pipeline, capsys, "--rule", "hits") == expected[:1]
    assert "late" in command(pipeline, capsys)
    run = ["lake", "gaps", "--pipeline", str(pipeline.root / "pipeline.yaml"), "--rule", "none"]
    assert run_command(run) == 2
    assert "found none, expected a live rule: first, hits, late" in capsys.readouterr().err


def test_a_fill_keeps_what_the_rules_would_have_given(
    pipeline: SpooledPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """``late``: payment 4 is the second of a1 within four hours, payment 8 of a2; ``hits``: none is the second hit."""
    assert command(pipeline, capsys, "--fill").count("late") == 2
    reader = pipeline.reader()
    rows = reader.rows("filled_alerts").select(["rule_id", "record_id", "value"]).to_pylist()
    assert sorted((row["rule_id"], row["record_id"], row["value"]) for row in rows) == [
        ("late", "p00004", 2.0),
        ("late", "p00008", 2.0),
    ]
    assert reader.count("alerts") == 0, "nobody was alerted"
    fills = reader.rows("fills").select(["rule_id", "alerts"]).to_pylist()
    assert sorted((row["rule_id"], row["alerts"]) for row in fills) == [("hits", 0), ("late", 1), ("late", 1)]
    assert listed(pipeline, capsys) == []
    assert "every live rule has judged all records" in command(pipeline, capsys)
    command(pipeline, capsys, "--fill")
    assert pipeline.reader().count("filled_alerts") == 2


def test_a_killed_fill_is_repeated_with_another_end(pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    gap = RuleGap("burst", 1, "payments", START_MS, START_MS + HOUR_MS, 1)
    append = LakeTable.append

    def killed(self: LakeTable, *given: Any) -> int:
        if self.layout.name == "fills":
            raise KeyboardInterrupt
        return append(self, *given)

    found = [alert(1), alert(2, at="2026-01-01T01:00:00.000Z"), alert(3, rule_id="other")]
    with monkeypatch.context() as patch:
        patch.setattr(gap_fill.LakeTable, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            keep_fills(pipeline.reader().lake, [gap], found)
    longer = RuleGap("burst", 1, "payments", START_MS, START_MS + 2 * HOUR_MS, 2)
    assert [each.alerts for each in keep_fills(pipeline.reader().lake, [longer], found)] == [2]
    rows = pipeline.reader().rows("filled_alerts").column("alert_id").to_pylist()
    assert sorted(rows) == ["alert-1", "alert-2"]
    assert pipeline.reader().count("fills") == 1


def test_records_that_are_nowhere_are_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = SpooledPipeline(tmp_path)
    pipeline.batch([payment(1)])
    gap = Gap("payments", "t-0", 3, 9)
    with pipeline.writer() as writer:
        read = writer.reader.read
        monkeypatch.setattr(type(writer.reader), "read", lambda self, *given: (self.gaps.append(gap), read(*given))[1])
        killed = True

        def at(step: str) -> None:
            if killed and step == "watermark":
                raise CrosslineError("killed")

        writer.before_step = at
        with pytest.raises(CrosslineError, match="killed"):
            writer.write_next()
        killed = False
        writer.write_next()
    assert missing_records(pipeline.reader()) == [MissingRecords("payments", "t-0", 3, 9)]


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda each: (min(each), max(each))), max_size=6)


@given(st.tuples(st.integers(0, 10), st.integers(11, 20)), SPANS)
def test_without_is_what_no_part_has(whole: tuple[int, int], parts: list[tuple[int, int]]) -> None:
    found = without(whole, parts)
    left = {at for at in range(*whole) if not any(start <= at < end for start, end in parts)}
    assert {at for start, end in found for at in range(start, end)} == left
    assert all(start < end for start, end in found)
    assert all(a[1] < b[0] for a, b in pairwise(found))
