"""Decisions of stream, replay and receipts, compared; worked by hand."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crossline.lake.parity.decisions import DecisionParityInput, compared_decisions, decided_span, differing
from crossline.lake.parity.report import DecisionDifference, ParityReport, RuleParity, read_report, write_report
from crossline.lake.replays.replay import IngestSpan
from crossline.serve.ledger.schema import LEDGER_FILE, ensure_schema
from unit.lake.lake_kit import START_MS, SpooledPipeline, payment
from unit.lake.test_time_travel import decision as of_kit

AT = "2026-01-01T00:00:01.000Z"
SPAN = IngestSpan(START_MS, START_MS + 60_000)


def reason(rule_id: str, version: int = 1, **fields: Any) -> dict[str, Any]:
    found = {"rule_id": rule_id, "rule_version": version, "action": None, "score": 40, "alert_id": f"a-{rule_id}"}
    return {**found, "message": "many", **fields}


def decided(record: str, what: str = "block", **fields: Any) -> dict[str, Any]:
    """A decision as pipelines give it."""
    own = {"record_id": record, "stream": "payments", "policy_version": 1, "score": 80, "reasons": [reason("burst")]}
    return {**of_kit(f"d-{record}", what), **own, "event_time": AT, "ingest_time": AT, **fields}


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    made = SpooledPipeline(tmp_path)
    (tmp_path / "policy.yaml").write_text("schema_version: 1\nversion: 1\ndecide: []\n")
    made.text = made.text.replace("kind: console", "kind: sqlite, path: out/store.db")
    made.text += "policy: policy.yaml\nserve: {path: out/serve, open: true}\n"
    return made


def compare(
    pipeline: SpooledPipeline, stream: list[dict[str, Any]], replay: list[dict[str, Any]], size: int = 100
) -> dict[str, Any]:
    """By what was decided."""
    pipeline.batch([payment(0)], decisions=stream)
    pipeline.batch([payment(1)])
    pipeline.write_all()
    with pipeline.writer() as writer:
        writer.write_side_logs()
    path = pipeline.root / "replayed.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in replay))
    with closing(pipeline.reader()) as reader:
        mark = reader.watermark()
        assert mark is not None
        given = DecisionParityInput(reader, mark, SPAN, path, size, policy_version=1)
        return {each.decision: each for each in compared_decisions(given)}


def test_what_differs_is_named_by_kind(pipeline: SpooledPipeline) -> None:
    stream = [
        decided("same", decided_at="2026-01-01T00:00:02.000Z", rules_digest="one"),
        decided("score", score=90),
        decided("rules", reasons=[reason("burst"), reason("other", 2)]),
        decided("why", reasons=[reason("burst", alert_id="another")]),
        decided("word", "review"),
        decided("lost"),
        decided("old policy", policy_version=0),
        decided("same", "allow", revises="d-same", revision=1, decision_id="r-1"),
        decided("before", ingest_time="2025-12-31T00:00:01.000Z"),
    ]
    replay = [
        decided("same", decided_at="2026-02-01T00:00:02.000Z", rules_digest="two"),
        *(decided(name) for name in ("score", "rules", "why", "word", "old policy", "made up")),
        decided("same", "review", revises="d-same", revision=1, decision_id="r-2"),
        decided("before", "allow", ingest_time="2025-12-31T00:00:01.000Z"),
    ]
    found = compare(pipeline, stream, replay)
    block, review = found["block"], found["review"]
    assert (block.decisions, block.sampled, block.equal, block.answered) == (5, 6, 1, 0)
    assert set(block.differences) == {
        DecisionDifference("payments", "score", "lake", "score"),
        DecisionDifference("payments", "rules", "lake", "rule other version 2 only in the stream"),
        DecisionDifference("payments", "why", "lake", "reason burst: alert_id"),
        DecisionDifference("payments", "lost", "lake", "only in the stream"),
        DecisionDifference("payments", "made up", "lake", "only in the lake"),
    }
    assert (review.decisions, review.sampled, review.equal) == (1, 1, 0)
    assert review.differences == (DecisionDifference("payments", "word", "lake", "decision"),)
    assert set(found) == {"block", "review"}


@pytest.mark.parametrize("size", [1, 3])
def test_a_sample_looks_at_the_same_records_on_both_sides(pipeline: SpooledPipeline, size: int) -> None:
    """The replay decides otherwise about half of them: none is said to be missing."""
    stream = [decided(f"p{number}", "block" if number % 2 else "allow") for number in range(20)]
    replay = [decided(f"p{number}", "block") for number in range(20)]
    found = compare(pipeline, stream, replay, size)
    assert {each.what for kind in found.values() for each in kind.differences} <= {"decision"}
    assert found["block"].sampled == found["block"].equal
    assert found["allow"].sampled >= size
    assert found["allow"].equal == 0
    assert found["allow"].decisions == found["block"].decisions == 10


def test_answers_that_rest_on_rules_are_compared(pipeline: SpooledPipeline) -> None:
    """A fallback rests on none; an answer without reasons is compared without them."""
    answers = {
        "p1": {"answered": "exact", "decision": "block", "score": 80, "reasons": [{"rule_id": "burst"}]},
        "p2": {"answered": "peek", "decision": "allow", "score": 80},
        "p3": {"answered": "peek", "decision": "block", "score": 80, "reasons": [{"rule_id": "other"}]},
        "p4": {"answered": "fallback", "decision": "allow"},
        "p5": {"answered": "peek", "decision": "block"},
    }
    path = pipeline.root / "out" / "serve" / LEDGER_FILE
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ensure_schema(connection, path)
        connection.execute("INSERT INTO bases VALUES ('b1', ?)", (b"{}",))
        connection.execute("INSERT INTO chains VALUES (0, 'one', 1, 'p', 9, 'x', 0, '')")
        for number, (record, answer) in enumerate(answers.items(), 1):
            name = f"d-{record}"
            row = ("payments", record, "digest", None, None, START_MS, name, answer["answered"], answer["decision"])
            insert = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            connection.execute(insert, (*row, json.dumps(answer).encode(), START_MS))
            receipt = ("one", number, name, f"digest-{name}", "b1", b"{}", START_MS)
            connection.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?)", receipt)
    both = [decided(record) for record in [*answers, "p6"]]
    block = compare(pipeline, both, both)["block"]
    assert (block.sampled, block.equal, block.answered, block.answered_equal, block.differ) == (6, 6, 4, 2, 2)
    assert set(block.differences) == {
        DecisionDifference("payments", "p2", "api", "decision (peek)"),
        DecisionDifference("payments", "p3", "api", "rules burst, other (peek)"),
    }


def test_the_order_and_the_standing_of_reasons_count() -> None:
    mine = decided("p1", reasons=[reason("a"), reason("b", standing=True)])
    theirs = decided("p1", reasons=[reason("b"), reason("a")])
    assert list(differing(mine, theirs)) == ["reason b: standing", "order of reasons"]
    assert list(differing(mine, mine)) == []


def test_decisions_in_files_are_compared_up_to_the_file_that_lags(pipeline: SpooledPipeline) -> None:
    folder = pipeline.root / "out" / "decisions"
    folder.mkdir(parents=True)
    pipeline.text += "decisions: {emit: all, path: out/decisions}\n"
    for number, seconds in enumerate(((1, 9), (2, 5))):
        lines = [
            json.dumps(decided(f"p{number}-{each}", ingest_time=f"2026-01-01T00:00:{each:02}.000Z")) + "\n"
            for each in seconds
        ]
        (folder / f"decisions-{number:04}.jsonl").write_text("".join(lines))
    with pipeline.writer() as writer:
        writer.write_side_logs()
    with closing(pipeline.reader()) as reader:
        assert decided_span(reader, SPAN) == IngestSpan(START_MS, START_MS + 5_001)
        empty = IngestSpan(START_MS + 60_000, START_MS + 70_000)
        assert decided_span(reader, empty) == IngestSpan(empty.from_ms, empty.from_ms)


def test_a_report_of_before_has_no_decisions(tmp_path: Path) -> None:
    rule = RuleParity("burst", 3, 2, 2, 0, 0)
    path = write_report(ParityReport("pay", "2026-01-01T00:00:00.000Z", "s", "u", 7, (rule,)), tmp_path)
    body = json.loads(path.read_text())
    assert body.pop("decisions") == []
    path.write_text(json.dumps(body))
    found = read_report(tmp_path, "pay")
    assert found is not None
    assert (found.decisions, found.same) == ((), True)
