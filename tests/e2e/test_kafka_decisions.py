"""Decisions on every record in a topic: the tasks write each exactly once, also if processes die meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from connectors.kafka_mock import read_topic
from crossline.basics.errors import CrosslineError
from crossline.runtime.pipeline.assemble import RunOptions, assemble
from oracle.decisions import naive_decisions

from .project import Project
from .test_decisions import POLICY, KilledError, comparable
from .test_hot_rules import as_published
from .test_stream_join import forget
from .topics import by_account, in_ingest_order, project_on, send, twin
from .traffic import DEFAULTS, OF_RECORDS

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

    from crossline.io.sinks.base import Delivery

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
SEED = 20_261_123
ASKED = {"burst": ("review", 40), "every_sum": ("allow", 10)}
BY_ACCOUNT = [rule for rule in OF_RECORDS if "account" in rule.get("group_by", "account")]


def test_decisions_on_every_record_stand_in_their_topic_once(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, alerts, decided = kafka_topic(2, append_time=False), kafka_topic(), kafka_topic(3)
    rules = [
        {**rule, **({"action": asked[0], "score": asked[1]} if (asked := ASKED.get(rule["rule_id"])) else {})}
        for rule in BY_ACCOUNT
    ]
    project = project_on(kafka_broker.brokers, tmp_path, [topic], alerts, rules, max_records_per_batch=40)
    decides(project, decided)
    sent = by_account([topic], 360, SEED)
    send(kafka_broker.brokers, sent[:200])

    def killed(delivery: Delivery, _: object) -> None:
        if delivery.batch_id == 2:
            raise KilledError

    # All is delivered, and Spark does not know: the batch is run again.
    with pytest.raises(CrosslineError, match="the query failed"):
        assemble(spark, project.config(), RunOptions(complete=True, on_batch=killed)).start().drain()
    with project.start(spark) as running:
        running.until_read(120)
        forget()
        send(kafka_broker.brokers, sent[200:])
        running.until_read(240)
    project.drain(spark)
    log = in_ingest_order(kafka_broker.brokers, [topic])
    wanted = naive_decisions(POLICY, rules, twin(as_published(project), log), log, DEFAULTS, every=True)
    messages = read_topic(kafka_broker.brokers, decided)
    found = [comparable(json.loads(message.value())) for message in messages]
    by_record = lambda each: each.record_id  # noqa: E731
    assert sorted(found, key=by_record) == sorted(wanted, key=by_record)
    assert {each.decision for each in wanted} > {"allow"}
    assert all(json.loads(m.value())["record_id"].encode() == m.key() for m in messages)
    stored = [json.loads(body) for (body,) in project.rows("SELECT body FROM decisions")]
    assert sorted(map(comparable, stored), key=by_record) == sorted((t for t in wanted if t.reasons), key=by_record)


def decides(project: Project, topic: str) -> None:
    """Have all decisions go to ``topic``."""
    (project.root / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    settings: dict[str, Any] = yaml.safe_load(project.pipeline.read_text())
    settings |= {"policy": "policy.yaml", "decisions": {"emit": "all", "sink_topic": topic}}
    settings["sinks"][1]["topics"] = [topic]
    project.pipeline.write_text(yaml.safe_dump(settings))
