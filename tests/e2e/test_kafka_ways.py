"""Batches of topics on one machine, beside Spark or as jobs of its tasks: they say the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connectors.kafka_mock import WAIT_S
from crossline.runtime.pipeline import batches, in_process_runner
from crossline.runtime.workers.in_process_worker import Setup

from .test_kafka import BY_ACCOUNT, SEED, check
from .topics import by_account, project_on, send

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

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
    monkeypatch.setattr(batches, "Setup", partial(Setup, patience_s=WAIT_S))
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
