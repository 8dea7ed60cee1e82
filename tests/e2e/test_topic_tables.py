"""A table whose rows are messages of a topic: what records meet, over changes, refusals and a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import backtest
from crossline.cli.rules.publish_table import publish_table
from crossline.io.kafka.control import ControlTopicWriter
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.rows.segments import segments_of
from crossline.rule_registry.rows.tables import tables_of_topics
from crossline.runtime.changes.publications import row_reader
from crossline.settings.config import rule_defaults

from .project import WAIT_S, Project, read_jsonl
from .test_hot_rules import Feeder
from .traffic import STREAM, Body, records

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
GOLD: Body = {
    "rule_id": "gold",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": STREAM,
    "conditions": [{"field": "tier.name", "operator": "==", "value": "gold"}],
}


def golden(log: list[dict[str, Any]], accounts: set[str]) -> set[str]:
    return {each["id"] for each in log if each["account"] in accounts}


def until_logged(project: Project, messages: int) -> None:
    """Wait until so many messages of the table's topic are in its log."""
    segments = segments_of(log_path(project.root / "rules", "shop"), "tier")
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        (header,) = segments.headers()
        changes = segments.changes(header.number)
        reached = (changes[-1] if changes else header).read.offsets
        if sum(reached.values()) >= messages:
            return
        time.sleep(0.02)
    raise AssertionError(f"not in time: {reached}")


def test_rows_of_a_topic(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = kafka_topic(3, config={"cleanup.policy": "compact"})
    table = {"kind": "kafka", "brokers": kafka_broker.brokers, "topic": topic, "key": "account"}
    shop = Project(tmp_path, [GOLD], enrich={"tier": {**table, "fields": {"name": "string"}}})
    writer = ControlTopicWriter({"bootstrap.servers": kafka_broker.brokers}, topic)
    log = [each for number, each in enumerate(records(80, seed=8)) if number % 40 != 39]  # without copies

    def put(account: str, name: str | None) -> None:
        value = None if name is None else json.dumps({"name": name}).encode()
        writer.send(account, value, {"who": "alice"})

    def publish(text: str, *, whole: bool = False) -> None:
        (tmp_path / "tiers.csv").write_text(text)
        publish_table("tier", tmp_path / "tiers.csv", pipeline=shop.pipeline, as_="bob", as_json=True, whole=whole)
        sent.append(json.loads(capsys.readouterr().out.splitlines()[-1]))

    sent: list[dict[str, Any]] = []
    publish("account,name\na0,gold\na1,gold\na2,tin\n")
    with shop.start(spark) as running:
        feeder = Feeder(shop, running, log)
        feeder.give(20)
        writer.send("a3", b'{"name": 3}', {"who": "eve"})
        refused = running.until_logged("refused", source="a3", who="eve", table_name="tier")
        put("a2", "gold")
        put("a0", None)
        until_logged(shop, 6)
        feeder.give(20)
    publish("account,name\na0,gold\na1,gold\na2,tin\n", whole=True)
    with shop.start(spark) as running:
        until_logged(shop, 9)
        Feeder(shop, running, feeder.rest, "1-").give(38)

    assert [(each["put"], each["taken_away"], each["unchanged"], each["who"]) for each in sent] == [
        (3, 0, 0, "bob"),
        (2, 1, 1, "bob"),
    ]
    assert refused["place"].startswith(f"{topic}/")
    assert "field name: found number 3, expected string" in refused["text"]
    alerts = shop.alerts()
    wanted = golden(log[:20], {"a0", "a1"}) | golden(log[20:40], {"a1", "a2"}) | golden(log[40:], {"a0", "a1"})
    assert {each["record_id"] for each in alerts.values()} == wanted

    config, path = shop.config(), log_path(tmp_path / "rules", "shop")
    as_logged = RecordedInput(config.streams, {STREAM: [str(tmp_path / "in")]})
    tables = tables_of_topics(config, ["tier"], path, tmp_path / "sorted", row_reader)
    judged = BacktestSpec(ruleset_of_log(path), as_logged, {}, rule_defaults(config), tables=tables)
    backtest(judged, tmp_path / "then.jsonl", processes=1)
    assert read_jsonl(tmp_path / "then.jsonl").keys() == alerts.keys(), "a replay meets the same"
    now = tables_of_topics(config, ["tier"], None, tmp_path / "sorted", row_reader)
    assert len(now["tier"]) == 1
