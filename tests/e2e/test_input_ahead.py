"""Records of a backlog are taken in while sinks get what came before; whatever happens meanwhile, the answer stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from crossline.runtime.pipeline import batches, input_ahead, planner
from crossline.runtime.pipeline.input_ahead import InputAhead
from crossline.runtime.pipeline.stage_processes import StageProcesses
from crossline.runtime.stages.rows import stage_rows
from crossline.runtime.work.totals import AHEAD, IN_PROCESS, RAN

from .project import Project, figures, from_twin
from .traffic import RULES, expected, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from crossline.io.sinks.base import Delivery
    from crossline.runtime.work.rows import StageRows

pytestmark = pytest.mark.spark
COUNT = 240
CHANGED_AFTER = 3  # batch


@pytest.fixture(autouse=True)
def every_batch_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batches, planner):
        monkeypatch.setattr(module, "ONE_TASK_RECORDS", -1)


@pytest.fixture(params=["auto", "never"])
def in_process(request: pytest.FixtureRequest) -> str:
    """Whether processes beside Spark take in, or a job of its own."""
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path, in_process: str) -> Project:
    """Some ten batches that wait."""
    engine = {"trigger": "0s", "shards": 3, "max_batch_bytes": 3_000, "checkpoint": "out/checkpoint"}
    project = Project(tmp_path, RULES, engine={**engine, "master": "local[2]", "in_process": in_process})
    project.give("all.jsonl", lines(records(COUNT, seed=1)))
    return project


def ahead(deliveries: list[Delivery]) -> dict[int, bool]:
    """By batch, whether it was taken in ahead."""
    return {each.batch_id: AHEAD in each.figures for each in deliveries}


def drained(project: Project, spark: SparkSession) -> dict[int, bool]:
    with project.start(spark, complete=True) as running:
        running.pipeline.drain()
    # Batch 0 is Spark's, whose task begins the state servers.
    auto = project.settings["engine"]["in_process"] == "auto"
    assert all((each.figures[RAN] == IN_PROCESS) == (auto and each.batch_id > 0) for each in running.deliveries)
    return ahead(running.deliveries)


def check(project: Project) -> None:
    log = records(COUNT, seed=1)
    twin = expected(RULES, log)
    assert figures(project.alerts()) == from_twin(twin)
    assert project.dead() == sorted(("duplicate_id", log[n]["id"]) for n in twin.duplicates)
    assert project.late() == sorted(log[n]["id"] for n in twin.late)


def test_all_but_the_first_and_the_last_are_taken_in_ahead(spark: SparkSession, project: Project) -> None:
    found = drained(project, spark)
    check(project)
    assert len(found) > 5, "there were to be more"
    # The end of the last is open: nothing is known beyond it.
    assert [number for number, was in found.items() if not was] == [0, len(found) - 1]


def test_a_rule_that_comes_meanwhile_judges_from_the_next_batch(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken in by the rules before is dropped: it has no column of what the new one reads."""
    begin = InputAhead.begin

    def and_publish(self: InputAhead, batch_id: int, *arguments: Any) -> None:
        begin(self, batch_id, *arguments)
        if batch_id == CHANGED_AFTER:
            fresh = velocity("devices", "distinct_count", 2, aggregation_field="account", group_by=["device", "kind"])
            project.publish("fresh.yaml", [fresh])
            project.until_logged("published", rule_id="devices")

    monkeypatch.setattr(InputAhead, "begin", and_publish)
    found = drained(project, spark)
    assert (found[CHANGED_AFTER], found[CHANGED_AFTER + 1], found[CHANGED_AFTER + 2]) == (True, False, True)
    events = [each for each in project.rule_log() if each["event"] == "published"]
    bodies = [{**each["body"], "effective_from": each["effective_from_ms"]} for each in events]
    alerts = project.alerts()
    assert any(alert["rule_id"] == "devices" for alert in alerts.values()), "not tested"
    assert figures(alerts) == from_twin(expected(bodies, records(COUNT, seed=1)))


def test_what_fails_ahead_is_done_by_the_batch(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> StageRows:
        raise OSError("no space left in the test")

    monkeypatch.setattr(input_ahead, "taken_in", fails)
    monkeypatch.setattr(StageProcesses, "take_in", fails)
    assert not any(drained(project, spark).values())
    check(project)


def test_a_batch_of_other_records_is_not_that_one(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets_of = input_ahead.offsets_of
    asked: list[int] = []

    def one_further(checkpoint: str, batch: int) -> list[dict[str, Any] | None]:
        asked.append(batch)
        found = offsets_of(checkpoint, batch)
        return [{"chunk": each["chunk"] + 1} if each else each for each in found] if asked.count(batch) == 2 else found

    monkeypatch.setattr(input_ahead, "offsets_of", one_further)
    assert not all(drained(project, spark).values())
    check(project)


def test_a_stop_does_not_wait_for_it(spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            while True:
                time.sleep(0.05)
            yield batch

    def never(frame: DataFrame, *_: Any) -> StageRows:
        return stage_rows(frame.mapInArrow(endless, frame.schema).toArrow())

    def of_spark(*_: Any) -> None:
        """Not by processes."""

    monkeypatch.setattr(input_ahead, "taken_in", never)
    monkeypatch.setattr(StageProcesses, "take_in", of_spark)
    with project.start(spark) as running:
        running.until(lambda totals: totals.batches >= 1)
        running.pipeline.stop()
    monkeypatch.undo()
    drained(project, spark)
    check(project)


def test_a_restart_begins_without_it(spark: SparkSession, project: Project) -> None:
    with project.start(spark, hold_after=3) as running:
        running.until_held()
    again = drained(project, spark)
    assert not again[min(again)]
    check(project)
