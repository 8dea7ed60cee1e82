"""A pipeline whose checkpoint is lost goes on from the lake, also where its topic has deleted records meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition

from connectors.kafka_mock import WAIT_S
from crossline.cli.main import run_command
from crossline.lake.state.schedule import state_schedule_of
from crossline.lake.state.state_snapshots import StateSnapshots
from crossline.lake.writing.follow import Follower
from crossline.lake.writing.writer_setup import writer_of
from crossline.runtime.snapshot.checkpoint import RESTORED

from .project import Project, figures, from_twin
from .test_hot_rules import as_published
from .test_kafka import PAIR
from .test_lake import reader_of, replayed, with_lake
from .topics import Sent, in_ingest_order, project_on, send, twin
from .traffic import STREAM, records

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="three starts; CROSSLINE_DEEP=1 runs it"),
]

Topic = Callable[..., str]


def write(project: Project) -> None:
    """As the writer does: what is committed, and a snapshot of the state if one is due."""
    with writer_of(project.config()) as writer:
        state = state_schedule_of(writer.reader.config, StateSnapshots(writer.lake), writer.reader.folder)
        Follower(writer, 60.0, state=state).catch_up(threading.Event())


def delete(broker: LocalBroker, topic: str, sent: Sequence[Sent]) -> None:
    """Have the topic delete the records of ``sent``, its first ones."""
    ends = [TopicPartition(topic, number, sum(each.partition == number for each in sent)) for number in (0, 1)]
    admin = broker.admin()  # for as long as it takes
    for deleted in admin.delete_records(ends).values():
        deleted.result(WAIT_S)


def test_records_that_the_topic_has_deleted_are_judged_from_the_lake(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    """Twenty records before the snapshot, twenty in the lake alone, five in the lake and the topic, ten new ones."""
    topic, alerts, unhurried = kafka_topic(2), kafka_topic(), {"emit": "every", "allowed_lateness": "10m"}
    now_ms = time.time_ns() // 1_000_000
    log = [{**each, "event_time": now_ms - 10 * (60 - number)} for number, each in enumerate(records(55, seed=6))]
    sent = [Sent(topic, int(each["account"][1:]) % 2, json.dumps(each).encode(), 0) for each in log]
    project = with_lake(project_on(kafka_broker.brokers, tmp_path, [topic], alerts, [{**PAIR, **unhurried}]))
    send(kafka_broker.brokers, sent[:20])
    project.drain(spark)
    write(project)
    send(kafka_broker.brokers, sent[20:40])
    send(kafka_broker.brokers, sent[40:45])
    project.drain(spark)
    write(project)
    before = project.alerts()
    judged = in_ingest_order(kafka_broker.brokers, [topic])[:40]
    delete(kafka_broker, topic, sent[:40])
    checkpoint = tmp_path / "out" / "checkpoint"
    shutil.rmtree(checkpoint)
    assert run_command(["lake", "restore", "--pipeline", str(project.pipeline)]) == 0
    assert (checkpoint / RESTORED).exists()

    send(kafka_broker.brokers, sent[45:])
    project.drain(spark)
    write(project)
    assert not (checkpoint / RESTORED).exists()
    judged += in_ingest_order(kafka_broker.brokers, [topic])
    assert len(judged) == 55
    found = project.alerts()  # each once
    assert figures(found) == from_twin(twin(as_published(project), judged))
    assert before.items() <= found.items()
    deleted_ids = {each["id"] for each in log[20:40]}
    new_ids = {each["id"] for each in log[45:]}
    assert any(
        alert["record_id"] in new_ids and deleted_ids & set(alert["evidence"]["record_ids"]) for alert in found.values()
    ), "not tested"
    reader = reader_of(project)
    assert reader.count(f"records_{STREAM}") == 55
    assert not reader.has("missing_records")
    assert replayed(project) == found
