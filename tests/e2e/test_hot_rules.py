"""Rules that change while the pipeline runs: what is taken up when, what is refused, what the history says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.basics.errors import RetryableError
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.directory import find_log, ruleset_of_log
from crossline.rule_registry.list_log import lists_of_log
from crossline.rule_registry.lists import lists_in
from crossline.rule_registry.log_file import LogFile
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import SnapshotFile
from crossline.runtime.snapshot.spark_log import committed

from .project import Project, Running, figures, from_twin, read_jsonl
from .traffic import STREAM, Body, Record, expected, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
PAIR = velocity("pair", threshold=2)
SINKS = [{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/alerts.jsonl"}]


def plain(number: int, account: str) -> Record:
    """One a second, each of amount 1."""
    return {"id": f"t{number}", "account": account, "amount": 1, "kind": "web", "event_time": number * 1_000}


class Feeder:
    """Gives the log to a running pipeline, piece by piece, and waits for each."""

    def __init__(self, project: Project, running: Running, log: list[Record], files: str = "") -> None:
        self.project, self.running, self.rest, self.files = project, running, list(log), files
        self.given = 0

    def give(self, count: int) -> None:
        piece, self.rest = self.rest[:count], self.rest[count:]
        self.project.give(f"{self.files}{self.given:06d}.jsonl", lines(piece))
        self.given += len(piece)
        self.running.until_read(self.given)


def history(project: Project) -> list[dict[str, Any]]:
    """The store's history of rules, in order."""
    return [json.loads(body) for (body,) in project.rows("SELECT body FROM rule_history ORDER BY seq")]


def moves(project: Project, rule_id: str) -> list[tuple[int, str]]:
    return [(e["version"], e["status"]) for e in history(project) if e.get("rule_id") == rule_id and "status" in e]


def as_published(project: Project) -> list[Body]:
    """The rules as the twin takes them: each body with the status and the instant that the log gives it."""
    events = [e for e in project.rule_log() if e["event"] in {"published", "status_changed"}]
    return [{**e["body"], "status": e["status"], "effective_from": e["effective_from_ms"]} for e in events]


def test_versions_statuses_and_refusals(spark: SparkSession, tmp_path: Path) -> None:
    log = records(160, seed=8)
    project = Project(tmp_path, [PAIR, velocity("calm", threshold=3)], sinks=SINKS)
    changes: list[tuple[str, Body]] = [
        ("published", {**PAIR, "version": 2, "aggregation_threshold": 3}),
        ("status_changed", {**PAIR, "version": 2, "aggregation_threshold": 3, "status": "paused"}),
        ("status_changed", {**PAIR, "version": 2, "aggregation_threshold": 3, "status": "active"}),
        ("status_changed", {**PAIR, "version": 2, "aggregation_threshold": 3, "status": "shadow"}),
        ("published", {**PAIR, "version": 3, "emit": "every"}),
        ("status_changed", {**PAIR, "version": 3, "emit": "every", "status": "retired"}),
    ]
    with project.start(spark) as running:
        feeder = Feeder(project, running, log)
        feeder.give(20)
        for event, body in changes:
            project.publish("pair.yaml", [body])
            running.until_logged(event, rule_id="pair", version=body["version"], status=body.get("status", "active"))
            feeder.give(20)
        bad = velocity("calm", threshold=1, version=2)
        project.publish("bad.yaml", [{**bad, "aggregation_type": "cuont"}, {**bad, "window": "soon"}])
        refused = running.until_logged("refused", source="bad.yaml")
        feeder.give(20)

    # calm version 1 stayed live through all of it, and each version judged what its interval says.
    alerts = project.alerts()
    assert figures(alerts) == from_twin(expected(as_published(project), log))
    assert {(a["rule_id"], a["rule_version"]) for a in alerts.values()} == {
        ("calm", 1),
        ("pair", 1),
        ("pair", 2),
        ("pair", 3),
    }
    assert read_jsonl(tmp_path / "out" / "alerts.jsonl") == {k: a for k, a in alerts.items() if a["kind"] == "alert"}
    assert any(a["kind"] == "shadow" for a in alerts.values()), "not tested"

    places = re.findall(r"bad\.yaml:(\d+)", refused["text"])
    assert len(set(places)) == 2, "both mistakes, each at its line"
    assert "count" in refused["text"], "the nearest valid name"
    assert refused in history(project)
    expected_moves = [
        (1, "active"),
        (2, "active"),
        (2, "paused"),
        (2, "active"),
        (2, "shadow"),
        (3, "active"),
        (3, "retired"),
    ]
    assert moves(project, "pair") == expected_moves
    assert moves(project, "calm") == [(1, "active")]


def test_lists_change_while_the_pipeline_runs(spark: SparkSession, tmp_path: Path) -> None:
    listed = [{"field": "account", "operator": "in", "value": {"list": "watched"}}]
    rule = {"rule_id": "seen", "version": 1, "rule_type": "threshold", "source_topic": STREAM, "conditions": listed}
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "watched.txt").write_text("a1\n")
    log = [
        {"id": f"t{n}", "account": f"a{n % 3}", "amount": 1, "kind": "web", "event_time": n * 1_000} for n in range(9)
    ]
    project = Project(tmp_path, [rule], lists={"kind": "directory", "path": "lists"})
    with project.start(spark) as running:
        feeder = Feeder(project, running, log)
        feeder.give(3)
        project.put(tmp_path / "lists" / "watched.txt", b"a0\na2\n")
        running.until_logged("list_changed", text="list watched: 2 entries")
        feeder.give(3)
        project.put(tmp_path / "lists" / "watched.txt", b"a1\n\xff\n")
        running.until_logged("refused", source="watched.txt")
        feeder.give(3)
        project.put(tmp_path / "lists" / "watched.txt", b"")
        running.until_logged("list_changed", text="list watched: 0 entries")
    # The list that cannot be read changes nothing: the last good one stays.
    fired = ["t1", "t3", "t5", "t6", "t8"]
    assert sorted(a["record_id"] for a in project.alerts().values()) == fired
    assert [e["event"] for e in history(project)][-2:] == ["list_changed", "refused"]

    rules, path = tmp_path / "rules", find_log(tmp_path / "rules")
    assert path is not None
    as_logged = RecordedInput(project.config().streams, {STREAM: [str(tmp_path / "in")]})
    of_then = BacktestSpec(ruleset_of_log(path), as_logged, lists_of_log(path, ["watched"]))
    backtest(of_then, tmp_path / "then.jsonl", processes=1)
    assert sorted(read_jsonl(tmp_path / "then.jsonl")) == sorted(project.alerts()), "as of the log: the entries of then"
    of_now = BacktestSpec(RuleSet.from_rules(read_rules(rules)), as_logged, lists_in(tmp_path / "lists"))
    backtest(of_now, tmp_path / "now.jsonl", processes=1)
    assert read_jsonl(tmp_path / "now.jsonl") == {}, "the list is empty now"


def test_what_was_published_while_nothing_ran_or_before_a_stop_is_in_the_history_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = records(80, seed=9)
    project = Project(tmp_path, [PAIR])
    with project.start(spark) as running:
        Feeder(project, running, log[:20], "0-").give(20)
        project.publish("late.yaml", [velocity("late", threshold=3)])
        running.until_logged("published", rule_id="late")
    assert moves(project, "late") == [], "no batch came that could bring it"
    project.publish("meanwhile.yaml", [velocity("meanwhile", "sum", 20, aggregation_field="amount")])
    with project.start(spark) as running:
        running.until_logged("published", rule_id="meanwhile")
        Feeder(project, running, log[20:], "1-").give(60)
    assert (moves(project, "late"), moves(project, "meanwhile")) == ([(1, "active")], [(1, "active")])
    assert len(history(project)) == len(project.rule_log()), "each event once"
    assert figures(project.alerts()) == from_twin(expected(as_published(project), log))


def test_rules_are_put_in_force_when_the_batch_before_cannot_come_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is delivered but not committed is run again after a kill, and must meet the rules that it met."""
    project = Project(tmp_path, [PAIR])
    delivered: list[int] = []
    deliver, replace = SqliteSink.deliver, SnapshotFile.replace

    def publishing(self: SqliteSink, delivery: Any) -> None:
        deliver(self, delivery)
        delivered.append(delivery.batch_id)
        project.publish("more.yaml", [velocity(f"more{n}", threshold=3) for n in delivered])

    def checked(self: SnapshotFile, snapshot: Any) -> None:
        if delivered:
            settled.append(committed(str(tmp_path / "out" / "checkpoint"), delivered[-1]))
        replace(self, snapshot)

    settled: list[bool] = []
    monkeypatch.setattr(SqliteSink, "deliver", publishing)
    monkeypatch.setattr(SnapshotFile, "replace", checked)
    with project.start(spark) as running:
        feeder = Feeder(project, running, records(40, seed=1))
        for _ in range(3):
            feeder.give(10)
            running.until_logged("published", rule_id=f"more{delivered[-1]}")
        feeder.give(10)  # with it at the latest the last are put in force, which a stop may come before
    assert len(settled) >= 3
    assert all(settled)


def test_a_rule_whose_past_cannot_be_read_begins_without_it(spark: SparkSession, tmp_path: Path) -> None:
    log = [plain(n, "a1") for n in range(12)]
    project = Project(tmp_path, [PAIR])
    with project.start(spark) as running:
        feeder = Feeder(project, running, log)
        feeder.give(6)
        for path in (tmp_path / "in").iterdir():
            path.unlink()
        project.publish("sum.yaml", [velocity("sum", "sum", 4, aggregation_field="amount", emit="every")])
        running.until_logged("published", rule_id="sum")
        feeder.give(6)
    # The window of t6 would hold seven records; without its past the rule sees four for the first time at t9.
    assert [a["record_id"] for a in project.alerts().values() if a["rule_id"] == "sum"] == ["t9", "t10", "t11"]
    (body,) = [event for event in history(project) if event["event"] == "without_past"]
    assert "cannot read bytes" in body["text"]


def test_a_rule_log_that_cannot_be_written_is_tried_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, [PAIR])
    append, failures = LogFile.append, [RetryableError("the disk is full")] * 3

    def failing(self: LogFile, events: Any) -> None:
        events = list(events)
        if failures and any(event.rule_id == "more" for event in events):
            raise failures.pop()
        append(self, events)

    monkeypatch.setattr(LogFile, "append", failing)
    with project.start(spark) as running:
        feeder = Feeder(project, running, records(20, seed=1))
        feeder.give(10)
        project.publish("more.yaml", [velocity("more", threshold=3)])
        running.until_logged("published", rule_id="more")
        feeder.give(10)
    assert not failures
    assert moves(project, "more") == [(1, "active")]
