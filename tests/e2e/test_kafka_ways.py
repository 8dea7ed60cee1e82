"""Batches of topics on one machine, beside Spark or as jobs of its tasks: they say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connectors.kafka_mock import WAIT_S
from crossline.runtime.pipeline import batch_series, beside_spark, in_process_runner
from crossline.runtime.pipeline.in_process_runner import InProcessRunner, Ranges
from crossline.runtime.snapshot.spark_log_entries import SparkLogEntries
from crossline.runtime.work.rows import Rows
from crossline.runtime.work.task import Task
from crossline.runtime.workers.in_process_worker import Setup

from .test_kafka import BY_ACCOUNT, SEED, check
from .topics import Sent, by_account, project_on, send

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

    from crossline.io.kafka.unavailable_range import Place

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize("in_process", ["auto", "never"])
def test_batches_say_the_same_whichever_way_they_run(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_process: str,
) -> None:
    """Small batches beside Spark but for the first, or each as a job of Spark's; both are what the naive twin says."""
    monkeypatch.setattr(beside_spark, "Setup", partial(Setup, patience_s=WAIT_S))
    monkeypatch.setattr(in_process_runner, "ANSWER_S_MAX", WAIT_S)
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2)
    sent = by_account(topics, 120, SEED)
    project = project_on(
        kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT, in_process=in_process, max_records_per_batch=20
    )
    with project.start(spark) as running:
        send(kafka_broker.brokers, sent)
        running.until_read(len(sent))
        totals = running.pipeline.totals
    assert sum(totals.ran.values()) == totals.batches >= 6
    by_spark = totals.ran.get("one_task", 0) + totals.ran.get("stages", 0)
    assert by_spark == totals.batches if in_process == "never" else 1 <= by_spark < totals.batches
    check(project, kafka_broker, alerts, topics)


class Series:
    """Sends a piece of ``pieces`` during each batch, so that the driver can plan the next; ``left``: to Spark."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, brokers: str, pieces: list[list[Sent]], left: int) -> None:
        self.planned: list[int] = []
        plan, run = SparkLogEntries.next, InProcessRunner.run

        def next_planned(entries: SparkLogEntries, ends: list[Mapping[Place, int]], now_ms: int) -> None:
            plan(entries, ends, now_ms)
            self.planned.append(entries.last)

        def run_or_leave(runner: InProcessRunner, task: Task, ranges: Ranges) -> Rows | None:
            if pieces:
                send(brokers, pieces.pop(0))
            leaves = len(self.planned) == left and self.planned[-1:] == [task.batch_id]
            return None if leaves else run(runner, task, ranges)

        monkeypatch.setattr(SparkLogEntries, "next", next_planned)
        monkeypatch.setattr(InProcessRunner, "run", run_or_leave)
        monkeypatch.setattr(batch_series, "WAIT_S", WAIT_S)
        monkeypatch.setattr(batch_series, "SERIES_S", WAIT_S)


def test_batches_that_the_driver_plans_say_the_same(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between those of Spark, before and after a stop; one of them is left to Spark, and read by it once more."""
    monkeypatch.setattr(beside_spark, "Setup", partial(Setup, patience_s=WAIT_S))
    monkeypatch.setattr(in_process_runner, "ANSWER_S_MAX", WAIT_S)
    topics, alerts = [kafka_topic(2, append_time=False) for _ in range(2)], kafka_topic(2)
    sent = by_account(topics, 180, SEED)
    pieces = [sent[at : at + 10] for at in range(0, len(sent), 10)]
    project = project_on(kafka_broker.brokers, tmp_path, topics, alerts, BY_ACCOUNT)
    for mine in (pieces[:9], pieces[9:]):
        count = sum(map(len, mine))
        send(kafka_broker.brokers, mine.pop(0))
        with pytest.MonkeyPatch.context() as patched, project.start(spark) as running:
            running.until_read(10)
            series = Series(patched, kafka_broker.brokers, mine, left=3)
            send(kafka_broker.brokers, mine.pop(0))
            running.until_read(count)
            totals = running.pipeline.totals
        assert len(series.planned) >= 6
        assert totals.ran["one_task"] >= 1, "none was left to Spark"
    check(project, kafka_broker, alerts, topics)
