"""Rules and lists from a control topic of a real broker, with review: who, when, and the same in a replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from connectors.kafka_mock import read_topic
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.cli.rules.approval import approve
from crossline.cli.rules.topic import publish_list, publish_rules, set_status_there
from crossline.io.kafka.control import ControlTopicWriter
from crossline.rule_registry.directory import find_log, ruleset_of_log
from crossline.rule_registry.list_log import lists_of_log
from crossline.settings.config import rule_defaults

from .project import Project, figures, from_twin, read_jsonl
from .test_hot_rules import Feeder, as_published
from .traffic import STREAM, Body, expected, records, velocity

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PAIR = velocity("pair", threshold=2)
LISTED: Body = {
    "rule_id": "seen",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": STREAM,
    "conditions": [{"field": "account", "operator": "in", "value": {"list": "watched"}}],
}


class Publisher:
    """People at the command line, each with a name."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def publish(self, who: str, *rules: Body) -> None:
        file = self.project.root / "desk.yaml"
        file.write_text(yaml.safe_dump(list(rules)))
        publish_rules(file, self.project.pipeline, who, as_json=True)

    def approve(self, who: str, rule_id: str) -> None:
        approve(rule_id, version=None, pipeline=self.project.pipeline, as_=who, as_json=True)

    def set_status(self, who: str, rule_id: str, status: Any) -> None:
        set_status_there(rule_id, status, None, self.project.pipeline, who, as_json=True)

    def put_list(self, who: str, *values: str) -> None:
        file = self.project.root / "watched.txt"
        file.write_text("\n".join(values) + "\n")
        publish_list(file, pipeline=self.project.pipeline, as_=who, as_json=True)


@pytest.fixture
def project(kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path) -> tuple[Project, str, str]:
    control, refusals = kafka_topic(config={"cleanup.policy": "compact"}), kafka_topic()
    topic = {"kind": "kafka", "brokers": kafka_broker.brokers, "topic": control}
    shop = Project(tmp_path, [], lists=topic)
    shop.settings["rules"] = {**topic, "refusals_topic": refusals, "review": "required"}
    shop.pipeline.write_text(yaml.safe_dump(shop.settings))
    return shop, control, refusals


def test_rules_and_lists_of_a_topic(
    spark: SparkSession, kafka_broker: LocalBroker, project: tuple[Project, str, str], tmp_path: Path
) -> None:
    shop, control, refusals = project
    people, log = Publisher(shop), records(120, seed=8)
    people.put_list("alice", "a1")
    people.publish("alice", PAIR, LISTED)
    people.approve("bob", "pair")
    people.approve("bob", "seen")
    with shop.start(spark) as running:
        feeder = Feeder(shop, running, log)
        feeder.give(20)
        second = {**PAIR, "version": 2, "aggregation_threshold": 3}
        people.publish("alice", second)
        running.until_logged("waiting", rule_id="pair", version=2, who="alice")
        feeder.give(20)
        people.approve("bob", "pair")
        running.until_logged("published", rule_id="pair", version=2, who="alice", approved_by="bob")
        feeder.give(20)
        people.set_status("carol", "pair", "paused")
        running.until_logged("status_changed", rule_id="pair", status="paused", who="carol")
        people.put_list("carol", "a0", "a2")
        running.until_logged("list_changed", text="list watched: 2 entries", who="carol")
        feeder.give(20)
        writer = ControlTopicWriter({"bootstrap.servers": kafka_broker.brokers}, control)
        writer.send("rule/pair/3", b"rule_id: [", {"who": "eve"})
        refused = running.until_logged("refused", source="rule/pair/3", who="eve")
    # Published while nothing ran, by the one who wrote it and one who approves.
    people.publish("alice", velocity("more", threshold=2))
    people.approve("dave", "more")
    with shop.start(spark) as running:
        running.until_logged("published", rule_id="more", approved_by="dave")
        Feeder(shop, running, feeder.rest, "1-").give(40)

    alerts = shop.alerts()
    published = [body for body in as_published(shop) if body["rule_id"] != "seen"]
    of_rules = {name: each for name, each in figures(alerts).items() if each[0] != "seen"}
    assert of_rules == from_twin(expected(published, log))
    assert {each[:2] for each in of_rules.values()} == {("pair", 1), ("pair", 2), ("more", 1)}
    seen = {int(a["record_id"][1:]): log[int(a["record_id"][1:])] for a in alerts.values() if a["rule_id"] == "seen"}
    assert {each["account"] for n, each in seen.items() if n < 60} == {"a1"}
    assert {each["account"] for n, each in seen.items() if n >= 80} == {"a0", "a2"}

    path = find_log(tmp_path / "rules")
    assert path is not None
    config = shop.config()
    as_logged = RecordedInput(config.streams, {STREAM: [str(tmp_path / "in")]})
    judged = BacktestSpec(ruleset_of_log(path), as_logged, lists_of_log(path, ["watched"]), rule_defaults(config))
    backtest(judged, tmp_path / "then.jsonl", processes=1)
    assert read_jsonl(tmp_path / "then.jsonl").keys() == alerts.keys(), "a replay meets the same"
    # Once; where a stop comes before the broker's answer again, under the same name.
    content = {
        dict(each.headers())["refusal_id"]: json.loads(each.value())
        for each in read_topic(kafka_broker.brokers, refusals)
    }
    assert list(content.values()) == [refused]
