"""examples/payments-kafka unchanged, over servers of the tests: its records are judged and reach all sinks."""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
import yaml
from dev.services.members import MEMBERS, TOPICS

from connectors.kafka_mock import read_topic
from connectors.registry_fake import fake_registry
from crossline.runtime.pipeline.assemble import RunOptions, assemble, read_config
from crossline.settings.config import in_folder
from oracle.composed import composed_detect

from .project import by_id, figures, from_twin
from .topics import on_topic
from .traffic import Record

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from dev.services.postgres import LocalPostgres
    from dev.services.redis import LocalRedis
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "payments-kafka"
PIPELINE = (EXAMPLE / "pipeline.yaml").read_text()
GOOD, BROKEN = 800, 3


def client() -> ModuleType:
    spec = importlib.util.spec_from_file_location("produce", EXAMPLE / "produce.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_names_what_make_services_starts() -> None:
    settings = yaml.safe_load(PIPELINE)
    ports = {each.name: each.port for each in MEMBERS}
    source, (kafka, redis, postgres) = settings["sources"]["payments"], settings["sinks"]
    registry = next(each for each in MEMBERS if each.name == "registry").address.format(port=ports["registry"])
    assert source["brokers"] == kafka["brokers"] == f"127.0.0.1:{ports['kafka']}"
    assert source["registry"]["url"] == registry
    assert (redis["port"], postgres["port"]) == (ports["redis"], ports["postgres"])
    assert {source["topic"], kafka["topic"], *kafka["topics"], kafka["dead_letter_topic"]} == set(TOPICS)
    assert (EXAMPLE / postgres["password_file"]).resolve() == EXAMPLE.parents[1].joinpath(
        ".cache", "services", "postgres", "password"
    )
    store = next(each for each in MEMBERS if each.name == "store").address.format(port=ports["store"])
    on_store = yaml.safe_load((EXAMPLE / "on-store.yaml").read_text())
    assert f"?endpoint={store}&" in on_store["engine"]["checkpoint"]
    assert on_store | {"name": settings["name"], "engine": settings["engine"]} == settings
    given = client().arguments([])
    assert (given.brokers, given.topic, given.registry) == (source["brokers"], source["topic"], registry)


@pytest.mark.spark
@pytest.mark.kafka
def test_what_is_sent_is_judged_and_reported_to_all(
    spark: SparkSession,
    kafka_broker: LocalBroker,
    kafka_topic: Callable[..., str],
    redis_server: LocalRedis,
    postgres_server: LocalPostgres,
    tmp_path: Path,
) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("out", ".log"))
    topics = {name: kafka_topic() for name in TOPICS}
    topic = topics["payments"]
    produce = client()
    with fake_registry() as registry:
        where = ["--brokers", kafka_broker.brokers, "--topic", topic, "--registry", registry.url]
        for schema, more in (("payment-1", ["--broken", str(BROKEN)]), ("payment-2", ["--seed", "8"])):
            sent = ["--schema", schema, "--records", str(GOOD // 2), "--rate", "10", "--since", "40", *more]
            assert produce.main([*where, *sent]) == 0
        change(tmp_path / "pipeline.yaml", kafka_broker, topics, registry.url, redis_server, postgres_server)
        config = in_folder(read_config(str(tmp_path / "pipeline.yaml")), str(tmp_path))
        totals = assemble(spark, config, RunOptions(complete=True)).start().drain()
        schemas = {number: json.loads(each["schema"]) for number, each in registry.schemas.items()}
    assert (totals.records, sum(totals.dead.values())) == (GOOD, BROKEN)

    log = in_order(read_topic(kafka_broker.brokers, topic), schemas)
    assert len(log) == GOOD
    events = map(json.loads, (tmp_path / "rules" / ".log" / "payments-kafka.jsonl").read_text().splitlines())
    rules = [
        {**each["body"], "effective_from": each["effective_from_ms"]} for each in events if each["event"] == "published"
    ]
    found = composed_detect(rules, log, defaults={"watermark_delay": "45s", "allowed_lateness": "2m"})
    expected = from_twin(found)
    assert len(expected) >= 3
    reported = on_topic(kafka_broker.brokers, topics["payments-alerts"])
    assert figures(reported) == expected
    decided = [json.loads(each.value()) for each in read_topic(kafka_broker.brokers, topics["payments-decisions"])]
    assert sorted(each["record_id"] for each in decided) == sorted(
        {hit[4] for hit in expected.values()} | {log[each.position]["_id"] for each in found.standing}
    )
    assert len(read_topic(kafka_broker.brokers, topics["payments-dead"])) == BROKEN

    with redis_server.client() as at:
        entries = [json.loads(fields["alert"]) for _, fields in at.xrange("crossline:payments-kafka:alerts")]
        decisions = len(list(at.scan_iter("crossline:payments-kafka:decision:*", count=1000)))
    assert figures(by_id(entries)) == expected
    assert decisions == len(decided)
    with postgres_server.connect() as connection:
        connection.execute("SET search_path = crossline")
        rows = connection.execute("SELECT body FROM alerts").fetchall()
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM decisions), (SELECT count(*) FROM dead_letters)"
        ).fetchone()
        connection.execute("DROP SCHEMA crossline CASCADE")
    assert figures(by_id(json.loads(str(body)) if isinstance(body, str) else body for (body,) in rows)) == expected
    assert counts == (len(decided), BROKEN)


def change(
    pipeline: Path,
    broker: LocalBroker,
    topics: dict[str, str],
    registry: str,
    redis_server: LocalRedis,
    postgres_server: LocalPostgres,
) -> None:
    """The servers of the tests in place of those of `make services`; nothing else."""
    text = PIPELINE
    for name in sorted(topics, key=len, reverse=True):
        text = text.replace(f" {name}\n", f" {topics[name]}\n").replace(f"[{name}]", f"[{topics[name]}]")
        text = text.replace(f"{{sink_topic: {name}}}", f"{{sink_topic: {topics[name]}}}")
    for before, after in (
        ("127.0.0.1:19092", broker.brokers),
        ("http://127.0.0.1:18081/apis/ccompat/v7", registry),
        ("16379", str(redis_server.port)),
        ("15432", str(postgres_server.port)),
        ("../../.cache/services/postgres/password", str(postgres_server.password_file)),
        ("checkpoint: out/checkpoint", 'checkpoint: out/checkpoint, shards: 2, master: "local[2]"'),
    ):
        assert before in text
        text = text.replace(before, after)
    pipeline.write_text(text)


def in_order(messages: list[Any], schemas: dict[int, Any]) -> list[Record]:
    """The payments of the topic as the twin takes them: read by another reader of Avro, in the order of ingest."""
    found = []
    clock_ms: dict[int, int] = {}
    for message in messages:
        ms = message.timestamp()[1]
        clock_ms[message.partition()] = max(ms, clock_ms.get(message.partition(), ms))
        value, number = message.value(), int.from_bytes(message.value()[1:5], "big")
        if value[:1] != b"\0" or number not in schemas or len(value) < 20:
            continue
        record: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schemas[number])
        event_ms = round(record["event_time"].timestamp() * 1000)
        judged = {**record, "_id": record["transaction_id"], "_event_ms": event_ms, "_ingest_ms": ms}
        found.append((clock_ms[message.partition()], message.partition(), message.offset(), judged))
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]
