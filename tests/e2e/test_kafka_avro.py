"""The real pipeline on a topic of Avro: two versions of a schema, records that do not fit, a registry that is away."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from connectors.registry_fake import fake_registry

from .project import Project, crossline, figures, from_twin
from .test_hot_rules import as_published
from .topics import Sent, send, twin
from .traffic import RULES, STREAM, STREAMS, Record, records

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SEED = 20_261_123
AWAY = (503, b'{"error_code": 50301, "message": "starting"}')


def schema_of(**kinds: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Payment", "fields": [{"name": n, "type": kind} for n, kind in kinds.items()]}


FIRST = schema_of(id="string", account="string", amount="int", kind="string", event_time="long")
KINDS = {"type": "enum", "name": "Kind", "symbols": ["web", "cash", "card"]}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
SECOND = schema_of(
    event_time=MILLIS,
    note=["null", {"type": "array", "items": "string"}],
    id="string",
    device=["null", "long"],
    price=["null", "double"],
    amount="long",
    kind=KINDS,
    account="string",
)
WRONG = schema_of(id="string", account="string", amount="string", kind="string", event_time="long")
SCHEMAS = {1: FIRST, 2: SECOND, 3: WRONG, 5: FIRST}


def avro(number: int, record: Record) -> bytes:
    """As a producer sends a record by schema ``number``: what that does not have is left out."""
    schema = SCHEMAS.get(number, FIRST)
    given = {"note": ["x"], "device": None, "price": None, **record}
    out = io.BytesIO()
    fields = {each["name"]: given[each["name"]] for each in schema["fields"]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), fields)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


class Log:
    """What was sent to the one partition of a topic, as the twin takes it."""

    def __init__(self, broker: LocalBroker, topic: str) -> None:
        self._brokers, self._topic = broker.brokers, topic
        self._now_ms = 0
        self.records: list[Record] = []

    def send(self, number: int, given: list[Record], *, good: bool = True) -> None:
        """Records by one schema; those that are not ``good`` become dead letters."""
        sent = []
        for record in given:
            self._now_ms = max(self._now_ms, record["event_time"])
            sent.append(Sent(self._topic, 0, avro(number, record), self._now_ms))
            if good:
                kept = {f["name"] for f in SCHEMAS.get(number, FIRST)["fields"]}
                stamps = {"_id": record["id"], "_event_ms": record["event_time"], "_ingest_ms": self._now_ms}
                self.records.append({**{k: v for k, v in record.items() if k in kept}, **stamps})
        send(self._brokers, sent)


def project_of(broker: LocalBroker, root: Path, topic: str, url: str) -> Project:
    source = {"kind": "kafka", "brokers": broker.brokers, "topic": topic, "registry": {"url": url}}
    streams = {STREAM: {**STREAMS[STREAM], "format": "avro"}}
    return Project(root, RULES, streams=streams, sources={STREAM: source})


def check(project: Project, log: Log) -> None:
    expected = twin(as_published(project), log.records)
    assert figures(project.alerts()) == from_twin(expected)
    assert project.late() == sorted(log.records[n]["_id"] for n in expected.late)


def test_a_schema_evolves_and_its_registry_goes_away(
    spark: SparkSession, kafka_broker: LocalBroker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic(append_time=False)
    made = records(150, SEED)
    log = Log(kafka_broker, topic)
    with fake_registry() as registry:
        for number in (1, 2, 3):
            registry.add(number, SCHEMAS[number])
        project = project_of(kafka_broker, tmp_path, topic, registry.url)
        with project.start(spark) as running:
            log.send(1, made[:50])
            running.until_read(50)
            before = running.pipeline.totals.batches
            registry.faults = [AWAY] * 4
            log.send(2, made[50:80])
            log.send(1, made[80:90])
            registry.until_asked("/schemas/ids/2", 3)  # who is in a hurry asks once, and leaves it to Spark
            assert running.pipeline.totals.batches == before, "the batch is held"
            running.until_read(90)
            log.send(3, [{**made[90], "id": "wrong", "amount": "12"}], good=False)
            log.send(4, [{**made[91], "id": "unknown"}], good=False)
            log.send(2, made[90:120])
            running.until_read(122)
        assert registry.asked.count("/schemas/ids/1") == 1
        check(project, log)
        rows = project.rows("SELECT reason, detail, record_id, raw FROM dead_letters WHERE reason <> 'duplicate_id'")
        assert sorted(rows) == [
            ("unknown_schema", "found schema 4, which the registry does not know", None,
             avro(4, {**made[91], "id": "unknown"})),
            ("wrong_type", 'field amount: found string "12", expected integer; by schema 3', "wrong",
             avro(3, {**made[90], "id": "wrong", "amount": "12"})),
        ]  # fmt: skip
        duplicates = project.rows("SELECT raw FROM dead_letters WHERE reason = 'duplicate_id'")
        assert duplicates
        assert all(raw[:4] == b"\0\0\0\0" for (raw,) in duplicates), "as they were sent"

        registry.faults = [AWAY] * 100_000
        log.send(5, made[120:130])
        with project.start(spark) as running:
            log.send(1, made[130:])
            registry.until_asked("/schemas/ids/5", 3)
        assert running.pipeline.totals.batches == 0, "it was stopped while the batch was held"
        registry.add(5, FIRST)
        registry.faults.clear()
        project.drain(spark)
        check(project, log)
        registry.down()  # what is looked at was read before
        alert = max(project.alerts().values(), key=lambda each: each["event_time"])
        shown = crossline("alerts", "show", alert["alert_id"], "--pipeline", project.pipeline, "--json")
    by_id: Mapping[str, Record] = {each["_id"]: each for each in log.records}
    for found in json.loads(shown.stdout)["records"]:
        record = by_id[found["record_id"]]
        assert found["found"]
        assert {n: found["fields"][n] for n in ("id", "account", "amount", "kind")} == {
            n: record[n] for n in ("id", "account", "amount", "kind")
        }
        assert "records_missing" not in json.loads(shown.stdout)
