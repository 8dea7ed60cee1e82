"""Times from the future on a topic: of records, and of senders' clocks, which are not to be believed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from .topics import Sent, project_on, send
from .traffic import BASE_MS, velocity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
YEAR_2199_MS = 7_226_582_400_000


def sent(topic: str, name: str, event_ms: int, ms: int) -> Sent:
    record: dict[str, Any] = {"id": name, "account": "a1", "amount": 1, "kind": "web", "event_time": event_ms}
    return Sent(topic, 0, json.dumps(record).encode(), ms)


def test_neither_moves_a_clock(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    # A current broker refuses such timestamps by itself, unless it is configured not to.
    believing = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    created = kafka_topic(1, append_time=False, config=believing)
    rule = velocity("two", threshold=2, emit="every")
    project = project_on(kafka_broker.brokers, tmp_path, [created], kafka_topic(1), [rule])
    stamps = [BASE_MS, BASE_MS + 1_000, YEAR_2199_MS, BASE_MS + 2_000]
    events = [BASE_MS, YEAR_2199_MS, BASE_MS + 1_500, BASE_MS + 2_000]
    send(
        kafka_broker.brokers,
        [sent(created, f"t{n}", *times) for n, times in enumerate(zip(events, stamps, strict=True))],
    )
    project.drain(spark)
    assert project.dead() == [("time_in_future", "t1"), ("time_in_future", "t2")]
    details = [row[0] for row in project.rows("SELECT detail FROM dead_letters ORDER BY record_id")]
    assert [detail.partition(":")[0] for detail in details] == ["field event_time", "the message's timestamp"]
    assert [alert["record_id"] for alert in project.alerts().values()] == ["t3"]
    assert project.late() == []


def test_no_batch_has_code_of_its_own(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The instant of a batch, which the test above is about, was once a number in its query: 20 ms of compiling."""
    created = kafka_topic(1, append_time=False)
    project = project_on(kafka_broker.brokers, tmp_path, [created], kafka_topic(1), [velocity("two", threshold=2)])
    compiled = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()  # type: ignore[union-attr]
    counts = []
    for number in range(3):
        send(kafka_broker.brokers, [sent(created, f"t{number}", BASE_MS + number, BASE_MS + number)])
        project.drain(spark)
        counts.append(compiled.getCount())
    assert counts[0] > 0
    assert counts[1:] == [counts[1]] * 2
    assert [alert["record_id"] for alert in project.alerts().values()] == ["t1"]
