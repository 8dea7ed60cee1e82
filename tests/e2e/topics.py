"""Topics of a real broker as source and sink of a pipeline, and what the naive twin says of what stands in them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from connectors.kafka_mock import WAIT_S, read_topic
from oracle.composed import composed_detect
from oracle.naive import NaiveResult

from .project import Alerts, Project, by_id, figures, from_twin
from .traffic import DEFAULTS, STREAM, Body, Record, records


@dataclass(frozen=True)
class Sent:
    """``ms``: the sender's time, which a topic that stamps append time does not keep."""

    topic: str
    partition: int
    value: bytes | None
    ms: int


def send(brokers: str, items: Iterable[Sent], together: int = 1_000) -> int:
    """How many were sent, in their order; ``together``: how many before the broker has to acknowledge them."""
    producer = Producer({"bootstrap.servers": brokers, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
    count = 0
    for count, item in enumerate(items, start=1):
        producer.produce(item.topic, item.value, partition=item.partition, timestamp=item.ms)
        if count % together == 0:
            assert producer.flush(WAIT_S) == 0
    assert producer.flush(WAIT_S) == 0
    return count


def by_account(topics: Sequence[str], count: int, seed: int) -> list[Sent]:
    """Traffic on two partitions of each topic; an account lies in one of them, with times that its sender gave."""
    draw = random.Random(seed)
    sent = []
    now_ms = 0
    for record in records(count, seed):
        now_ms = max(now_ms, record["event_time"])
        number = int(record["account"][1:])
        # Clocks of senders: close to each other, and not in order.
        ms = now_ms - draw.choice([0, 0, 0, 300, 1_200])
        sent.append(Sent(topics[number % len(topics)], number // len(topics) % 2, json.dumps(record).encode(), ms))
    return sent


def project_on(
    brokers: str,
    root: Path,
    topics: Sequence[str],
    alerts: str,
    rules: Sequence[Body],
    master: str = "local[2]",
    spark: Mapping[str, Any] | None = None,
    in_process: str = "auto",
    *,
    standby: bool = False,
    **source: Any,
) -> Project:
    """Topics in; the store and the topic ``alerts`` out, dead letters on ``alerts`` with ``.dead`` behind it.

    What is read in several batches is read unevenly: partitions may lag.
    """
    engine = {"trigger": "0s", "shards": 3, "checkpoint": "out/checkpoint", "master": master, "spark": spark or {}}
    kafka = {"kind": "kafka", "brokers": brokers}
    return Project(
        root,
        rules,
        engine={**engine, "partition_lag": "1h", "in_process": in_process, "standby": standby},
        sources={STREAM: {**kafka, "topic": ",".join(topics), **source}},
        sinks=[
            {"kind": "sqlite", "path": "out/alerts.db"},
            {**kafka, "topic": alerts, "dead_letter_topic": f"{alerts}.dead"},
        ],
    )


def on_topic(brokers: str, topic: str) -> Alerts:
    """The alerts of a topic; raises where an id comes twice."""
    return by_id(json.loads(message.value()) for message in read_topic(brokers, topic))


def in_ingest_order(brokers: str, topics: Iterable[str]) -> list[Record]:
    """What stands in the topics, as the twin takes it.

    By offset within a partition; across partitions by the broker's time, then by name.
    """
    found = []
    for topic in topics:
        clock_ms: dict[str, int] = {}
        for message in read_topic(brokers, topic):
            name = f"{topic}-{message.partition()}"
            ms = message.timestamp()[1]
            clock_ms[name] = max(ms, clock_ms.get(name, ms))
            record = json.loads(message.value())
            judged = {**record, "_id": record["id"], "_event_ms": record["event_time"], "_ingest_ms": ms}
            found.append((clock_ms[name], name, message.offset(), judged))
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]


def twin(rules: Sequence[Body], log: Sequence[Record]) -> NaiveResult:
    """What the naive twin finds in ``log``."""
    return composed_detect(rules, log, defaults=DEFAULTS)


def as_twin(
    rules: Sequence[Body], project: Project, brokers: str, topics: Sequence[str], alerts: str, sent: Sequence[Sent]
) -> None:
    """What stands in the topic of alerts is what the twin finds in those of records, where all stands that was sent."""
    log = in_ingest_order(brokers, topics)
    assert len(log) == len(sent)
    expected = twin(rules, log)
    assert figures(project.alerts()) == from_twin(expected)
    assert on_topic(brokers, alerts) == project.alerts()
    assert project.dead() == sorted(("duplicate_id", log[n]["_id"]) for n in expected.duplicates)
    assert len(read_topic(brokers, f"{alerts}.dead")) == len(project.dead())
    assert project.late() == sorted(log[n]["_id"] for n in expected.late)
