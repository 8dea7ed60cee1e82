"""What stands in each sink in the end, read by clients of the sinks' own systems, and in the topic of records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from chaos.pipeline import ALERTS, DEAD, NAME, STREAM, TOPIC
from chaos.producer import NUMBER_HEADER
from chaos.services import Services
from crossline.services.postgres import LocalPostgres
from crossline.services.redis import LocalRedis

ANSWER_S_MAX = 60.0

Body = dict[str, Any]
# Where a record stands: its partition and its offset.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record of the topic: the number that its sender gave it, where it stands, when the broker took it."""

    number: int
    partition: int
    offset: int
    ms: int
    value: bytes | None

    @property
    def place(self) -> Place:
        """As sinks name it."""
        return f"{TOPIC}-{self.partition}", self.offset


@dataclass(slots=True)
class Contents:
    """What a sink has, as often as it has it. None: it keeps nothing of that kind."""

    alerts: list[Body] | None = None
    decisions: list[Body] | None = None
    dead: list[tuple[Place, str]] | None = None
    late: list[Place] | None = None
    alert_ids: list[str] | None = None
    more: dict[str, Any] = field(default_factory=dict)


def arrived(brokers: str) -> list[Arrived]:
    """All records of the topic, in the order of partition and offset."""
    found = []
    for message in read_topic(brokers, TOPIC):
        number = int(dict(message.headers())[NUMBER_HEADER])
        found.append(Arrived(number, message.partition(), message.offset(), message.timestamp()[1], message.value()))
    return sorted(found, key=lambda each: (each.partition, each.offset))


def read_topic(brokers: str, topic: str) -> Iterator[Message]:
    """All that stands in a topic now."""
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "chaos-count", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=ANSWER_S_MAX).topics[topic].partitions)
        for number in partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_S_MAX)
            consumer.assign([TopicPartition(topic, number, 0)])
            at = 0
            while at < end:
                message = consumer.poll(ANSWER_S_MAX)
                if message is None:
                    raise TimeoutError(f"{topic}-{number} has records up to {end} and gives none after {at}")
                if message.error():
                    continue
                at = message.offset() + 1
                yield message
    finally:
        consumer.close()


def all_contents(root: Path, services: Services) -> dict[str, Contents]:
    """By the name of the sink."""
    found = {
        "kafka": _kafka(services.brokers),
        "jsonl": _jsonl(root / "out"),
        "sqlite": _sqlite(root / "out" / "store.db"),
        "redis": _redis(services.redis),
        "decided": Contents(decisions=_lines(sorted((root / "out" / "decided").glob("*.jsonl")))),
        "webhook": Contents(more={"times": dict(services.receiver.ids), "parked": _lines([root / "out/parked.jsonl"])}),
    }
    if services.postgres is not None:
        found["postgres"] = _postgres(services.postgres)
    return found


def _kafka(brokers: str) -> Contents:
    dead = []
    for message in read_topic(brokers, DEAD):
        headers = {name: value.decode() for name, value in message.headers()}
        dead.append(((headers["partition"], int(headers["offset"])), headers["reason"]))
    return Contents(alerts=[orjson.loads(each.value()) for each in read_topic(brokers, ALERTS)], dead=dead)


def _jsonl(out: Path) -> Contents:
    dead = [((each["partition"], each["offset"]), each["reason"]) for each in _lines([out / "dead.jsonl"])]
    return Contents(_lines([out / "alerts.jsonl"]), _lines([out / "decisions.jsonl"]), dead)


def _sqlite(path: Path) -> Contents:
    with closing(sqlite3.connect(path)) as connection:
        return _of_tables(lambda query: connection.execute(query).fetchall())


def _postgres(server: LocalPostgres) -> Contents:
    with server.connect() as connection:
        connection.execute("SET search_path TO crossline")
        return _of_tables(lambda query: connection.execute(query).fetchall())


def _of_tables(ask: Any) -> Contents:
    dead = ask('SELECT "partition", "offset", reason FROM dead_letters')
    return Contents(
        alerts=[_body(body) for (body,) in ask("SELECT body FROM alerts")],
        decisions=[_body(body) for (body,) in ask("SELECT body FROM decisions")],
        dead=[((partition, offset), reason) for partition, offset, reason in dead],
        late=list(ask('SELECT "partition", "offset" FROM late_records')),
    )


def _body(body: Any) -> Body:
    return body if isinstance(body, dict) else dict(orjson.loads(body))


def _redis(server: LocalRedis) -> Contents:
    prefix = f"crossline:{NAME}"
    with server.client() as client:
        stream = client.xrange(f"{prefix}:alerts")
        keys = list(client.scan_iter(f"{prefix}:decision:{STREAM}:*", count=10_000))
        last = [orjson.loads(text) for text in _chunked(client, keys)]
        alerts = [orjson.loads(fields["alert"]) for _, fields in stream]
        known = [key.rsplit(":", 1)[1] for key in client.scan_iter(f"{prefix}:alert:*", count=10_000)]
    return Contents(alerts=alerts, alert_ids=known, more={"last_decisions": last})


def _chunked(client: Any, keys: list[str]) -> Iterator[str]:
    for at in range(0, len(keys), 5_000):
        yield from client.mget(keys[at : at + 5_000])


def _lines(paths: Iterable[Path]) -> list[Body]:
    return [orjson.loads(line) for path in paths if path.exists() for line in path.read_bytes().splitlines()]
