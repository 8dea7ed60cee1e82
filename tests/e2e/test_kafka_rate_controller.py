"""Batches of topics that are bounded by how long they take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.runtime.spark_internals import rate_controller

from .test_kafka import BY_ACCOUNT, SEED, check
from .topics import by_account, project_on, send
from .traffic import STREAM

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_batch_reads_less_where_batches_take_long(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_controller, "RECORDS_MIN", 5)
    topic, alerts = kafka_topic(2, append_time=False), kafka_topic()
    send(kafka_broker.brokers, by_account([topic], 200, SEED))
    project = project_on(kafka_broker.brokers, tmp_path, [topic], alerts, BY_ACCOUNT, max_records_per_batch=40)
    project.set_engine(batch_within="1ms")  # which no batch is
    with project.start(spark) as running:
        running.pipeline.drain()
    taken = [delivery.figures["records"] for delivery in running.deliveries]
    assert sum(taken) == 200
    assert (taken[0], max(taken[4:])) == (40, 5)
    assert [(each.amount, each.problem) for each in running.pipeline.waiting()] == [(0, None)]
    assert running.pipeline.totals.waiting == {STREAM: 0}
    check(project, kafka_broker, alerts, [topic])
