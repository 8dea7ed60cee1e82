"""Before a real topic deletes records that the lake does not have, the writer warns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from dev.services.broker import LocalBroker
from structlog.testing import capture_logs
from typer.testing import CliRunner

from crossline.cli.app import app
from crossline.io.kafka.retention import Retention
from crossline.io.outbox.batch_spool import SpooledBatch
from crossline.io.sinks.base import Delivery
from crossline.lake.writing.backlog import OLD_MS, BacklogAlarm, backlog
from crossline.settings.config import PipelineConfig
from unit.lake.lake_kit import CHECKPOINT, PIPELINE, START_MS, SpooledPipeline, payment

from .remaking import WAIT_S, producer_of

pytestmark = pytest.mark.kafka
DAY_MS = 86_400_000
SENT_MS = START_MS + 7  # the timestamp of offset 0 in the topic
FIRST, END = 2, 5


class TopicPipeline(SpooledPipeline):
    """A batch of offsets ``FIRST`` to ``END`` of partition 0 is committed and not in the lake."""

    def pending_batch(self, topic: str) -> None:
        delivery = Delivery("pay-eu", 0, checkpoint=CHECKPOINT, began_ms=START_MS)
        self.spool.put(SpooledBatch(delivery, {"payments": {f"{topic}-0": (FIRST, END)}}, START_MS + 100))
        commits = self.folder / "spark" / "commits"
        commits.mkdir(parents=True)
        (commits / "0").touch()


@pytest.fixture
def made(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path) -> tuple[TopicPipeline, str]:
    topic = kafka_topic(1, append_time=False, config={"retention.ms": str(100 * 365 * DAY_MS)})
    producer = producer_of(kafka_broker)
    for number in range(END):
        producer.produce(topic, json.dumps(payment(number)).encode(), partition=0, timestamp=SENT_MS + number)
    assert producer.flush(WAIT_S) == 0
    source = f"{{kind: kafka, brokers: '{kafka_broker.brokers}', topic: {topic}}}"
    text = PIPELINE.replace("{kind: files, path: in/*.jsonl}", source)
    pipeline = TopicPipeline(tmp_path, text)
    pipeline.pending_batch(topic)
    return pipeline, topic


def alarms(pipeline: SpooledPipeline, now_ms: int) -> list[dict[str, object]]:
    """The warnings of one check at ``now_ms``."""
    with pipeline.writer() as writer, capture_logs() as lines:
        alarm = BacklogAlarm(writer.spool, writer.reader, now_ms=lambda: now_ms, now_s=lambda: 0.0)
        alarm.check()
        alarm.check()  # not again so soon
    return [line for line in lines if line["log_level"] == "warning"]


def test_a_warning_comes_at_half_of_the_retention(made: tuple[TopicPipeline, str]) -> None:
    pipeline, topic = made
    kept_ms = 100 * 365 * DAY_MS
    with pipeline.writer() as writer:
        found = backlog(writer.spool, writer.reader)
        assert found is not None
        (log,) = found.logs
        assert (found.batches, found.delivered_ms) == (1, START_MS + 100)
        assert (log.offset, log.older, log.record_ms) == (FIRST, FIRST, SENT_MS + FIRST)
        assert log.retention == Retention(kept_ms, None, compacted=False)
        assert log.until_ms == SENT_MS + FIRST + kept_ms
        by_bytes = replace(log, retention=Retention(None, 10**6, compacted=False))
        assert not by_bytes.urgent(SENT_MS + 10**12), "two older records go first"
        assert replace(by_bytes, older=0).urgent(SENT_MS)
    half_ms = SENT_MS + FIRST + kept_ms // 2
    assert alarms(pipeline, half_ms - 1) == []
    (warning,) = alarms(pipeline, half_ms)
    assert "deletes records soon" in str(warning["event"])
    assert (warning["log"], warning["offset"], warning["until"]) == (f"{topic}-0", FIRST, "2125-12-08T00:00:00.009Z")


def test_a_writer_that_is_not_behind_asks_no_broker(made: tuple[TopicPipeline, str]) -> None:
    pipeline, _ = made
    pipeline.text = pipeline.text.replace("brokers: '", "brokers: 'nowhere.invalid:1,")
    assert alarms(pipeline, START_MS + 100 + OLD_MS - 1) == []


def test_what_the_topic_has_deleted_is_named(made: tuple[TopicPipeline, str], kafka_broker: LocalBroker) -> None:
    pipeline, topic = made
    admin = kafka_broker.admin()
    for deleted in admin.delete_records([TopicPartition(topic, 0, FIRST + 1)]).values():
        deleted.result(WAIT_S)
    (warning,) = alarms(pipeline, START_MS + OLD_MS + 100)
    assert "has deleted records" in str(warning["event"])
    assert warning["offset"] == FIRST


def test_brokers_that_do_not_answer_stop_nothing(
    made: tuple[TopicPipeline, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, _ = made
    monkeypatch.setattr("crossline.io.kafka.retention.ANSWER_S_MAX", 0.5)
    text = pipeline.text
    pipeline.text = text.replace(text.partition("brokers: '")[2].partition("'")[0], "127.0.0.1:1")
    (warning,) = alarms(pipeline, START_MS + OLD_MS + 100)
    assert "do not say" in str(warning["event"])


def test_status_shows_what_is_pending_and_until_when_the_topic_keeps_it(made: tuple[TopicPipeline, str]) -> None:
    pipeline, topic = made
    config: PipelineConfig = pipeline.config
    assert config.lake is not None
    with pipeline.writer():
        pass  # makes the tables
    path = pipeline.root / "pipeline.yaml"
    path.write_text(pipeline.text)
    (pipeline.root / "rules").mkdir()
    done = CliRunner().invoke(app, ["lake", "status", "--pipeline", str(path)])
    assert done.exit_code == 0, done.output
    assert "behind: 1 batch" in done.output
    assert f"{topic}-0 from offset {FIRST}: the topic keeps it until 2125-12-08" in " ".join(done.output.split())
