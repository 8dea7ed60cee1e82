"""Topics that lose what a pipeline was to read: made again, or cut by their retention. Told, and never skipped over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition

from connectors.remaking import WAIT_S, remake
from crossline.basics.errors import PermanentError

from .project import Project
from .topics import by_account, project_on, send
from .traffic import RULES

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

Topic = Callable[..., str]
SEED = 20_261_121


def read_once(spark: SparkSession, broker: LocalBroker, topic: str, root: Path) -> Project:
    """A project that has read a hundred records of ``topic``."""
    send(broker.brokers, by_account([topic], 100, SEED))
    project = project_on(broker.brokers, root, [topic], broker.create_topic(f"{topic}-alerts"), RULES)
    assert project.drain(spark).records == 100
    return project


def test_a_topic_made_again_while_the_pipeline_is_down(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    project = read_once(spark, kafka_broker, topic, tmp_path)
    remake(kafka_broker, topic, 2)
    send(kafka_broker.brokers, by_account([topic], 300, SEED))  # more than before: the old offsets are in it
    with pytest.raises(PermanentError, match=f"topic {topic} is not the one .* made again"):
        project.drain(spark)
    assert project.rows("SELECT count(*) FROM batches") == [(1,)]


def test_a_topic_made_again_while_the_pipeline_runs(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    project = read_once(spark, kafka_broker, topic, tmp_path)
    with project.start(spark) as running:
        remake(kafka_broker, topic, 2)
        send(kafka_broker.brokers, by_account([topic], 300, SEED))
        with pytest.raises(PermanentError, match=topic):  # by its id, or by an end that went back
            running.pipeline.wait()
    commits = tmp_path / "out" / "checkpoint" / "spark" / "commits"
    assert [each.name for each in commits.iterdir() if each.name.isdigit()] == ["0"], "it was committed all the same"


def test_records_deleted_before_they_were_read(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Topic, tmp_path: Path
) -> None:
    topic = kafka_topic(2)
    project = read_once(spark, kafka_broker, topic, tmp_path)
    send(kafka_broker.brokers, by_account([topic], 200, SEED))
    admin = kafka_broker.admin()
    place = TopicPartition(topic, 0, 80)
    admin.delete_records([place])[place].result(WAIT_S)
    with pytest.raises(PermanentError, match=f"topic {topic}, partition 0: .* comes next; it begins at offset 80 now"):
        project.drain(spark)
