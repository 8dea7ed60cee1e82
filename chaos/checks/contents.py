"""The final contents of each sink, read by clients of the sinks' own systems, and of the topic of records."""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from dev.services.postgres import LocalPostgres
from dev.services.redis import LocalRedis

from chaos.checks.ledger import chunked
from chaos.load.log import digest_of
from chaos.load.producer import NUMBER_HEADER
from chaos.parts.services import Services
from chaos.pipeline import ALERTS, DEAD, DECISIONS, NAME, PARTITIONS, STREAM, TOPIC
from crossline.io.kafka.messages import END_HEADER

LOOK_S = 0.2
ANSWER_S_MAX = 60.0
CHUNK = 5_000
VALUE_MAX = 10_000
QUEUE_KB = 16_384

Body = dict[str, Any]
# Where a record stands: its partition and its offset.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A record of the topic: the number that its sender gave it, where it stands, when the broker took it.

    ``value`` of one that is beyond all that can be read is not kept. ``number``: None of one that came through the API.
    """

    number: int | None
    partition: int
    offset: int
    ms: int
    value: bytes | None
    digest: int

    @property
    def place(self) -> Place:
        """As sinks name it."""
        return f"{TOPIC}-{self.partition}", self.offset


@dataclass(slots=True)
class Contents:
    """What a sink has, as often as it has it, read as it is gone over. None: it keeps nothing of that kind.

    ``all_decisions``: those on every record, not only on such with hits; ``last``: of those the newest of each record;
    ``ids``: of alerts; ``times``: by id of an alert, how often a sink got it that promises it at least once;
    ``parked``: what that refused.
    """

    alerts: Iterable[Body] | None = None
    decisions: Iterable[Body] | None = None
    all_decisions: Iterable[Body] | None = None
    dead: Iterable[tuple[Place, str]] | None = None
    late: Iterable[Place] | None = None
    ids: Iterable[str] | None = None
    last: Iterable[Body] | None = None
    times: Mapping[str, int] | None = None
    parked: Iterable[Body] = ()


def arrived(brokers: str) -> Iterator[Arrived]:
    """All records of the topic, in the order of their times, then of partition and offset.

    Raises RuntimeError where the times of a partition go back: the clock of the machine was set.
    """
    return heapq.merge(
        *(_arrived(brokers, number) for number in range(PARTITIONS)),
        key=lambda each: (each.ms, each.partition, each.offset),
    )


def _arrived(brokers: str, partition: int) -> Iterator[Arrived]:
    last_ms = 0
    for message in read_topic(brokers, TOPIC, [partition]):
        named = dict(message.headers() or ()).get(NUMBER_HEADER)
        number, value, ms = None if named is None else int(named), message.value(), message.timestamp()[1]
        if ms < last_ms:
            raise RuntimeError(f"{TOPIC}-{partition}: the broker's clock went back {last_ms - ms} ms")
        last_ms = ms
        kept = value if value is not None and len(value) <= VALUE_MAX else None
        yield Arrived(number, partition, message.offset(), ms, kept, digest_of(value))


def read_topic(brokers: str, topic: str, only: Sequence[int] = ()) -> Iterator[Message]:
    """All that stands in a topic now, or in some of its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "chaos-count",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": QUEUE_KB,
            "enable.partition.eof": True,  # the last offsets may be of no records, but of the ends of transactions
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=ANSWER_S_MAX).topics[topic].partitions)
        for number in only or partitions:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_S_MAX)
            consumer.assign([TopicPartition(topic, number, 0)])
            yield from _to_end(consumer, f"{topic}-{number}", end)
    finally:
        consumer.close()


def _to_end(consumer: Consumer, shown: str, end: int) -> Iterator[Message]:
    at, came_s = 0, time.monotonic()
    while at < end:
        found = consumer.consume(CHUNK, LOOK_S)  # waits so long for as many, and no longer
        if found:
            came_s = time.monotonic()
        elif time.monotonic() - came_s > ANSWER_S_MAX:
            raise TimeoutError(f"{shown} has records up to {end} and gives none after {at}")
        for message in found:
            if message.error():
                if message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's name
                    return
                continue
            at = message.offset() + 1
            if END_HEADER not in dict(message.headers() or ()):
                yield message


def all_contents(root: Path, services: Services) -> dict[str, Callable[[], Contents]]:
    """By the name of the sink, what reads it; ``decided…``: what the tasks of the pipeline wrote."""
    out, store, brokers = root / "out", root / "out" / "store.db", services.brokers
    found = {
        "kafka": lambda: Contents(map(_value, read_topic(brokers, ALERTS)), dead=_dead_on(brokers)),
        "jsonl": lambda: Contents(
            lines([out / "alerts.jsonl"]), lines([out / "decisions.jsonl"]), dead=_dead_in(out / "dead.jsonl")
        ),
        "sqlite": lambda: _tables(lambda query: _from_sqlite(store, query)),
        "redis": lambda: _redis(services.redis),
        "decided, files": lambda: Contents(all_decisions=lines(sorted((out / "decided").glob("*.jsonl")))),
        "decided, kafka": lambda: Contents(all_decisions=map(_value, read_topic(brokers, DECISIONS))),
        "webhook": lambda: Contents(times=services.receiver.ids, parked=lines([out / "parked.jsonl"])),
    }
    server = services.postgres
    if server is not None:
        found["postgres"] = lambda: _tables(lambda query: _from_postgres(server, query))
    return found


def lines(paths: Iterable[Path]) -> Iterator[Body]:
    """The lines of JSON of files, where they are there."""
    for path in paths:
        if path.exists():
            with path.open("rb") as file:
                yield from map(orjson.loads, file)


def _value(message: Message) -> Body:
    return dict(orjson.loads(message.value()))


def _dead_on(brokers: str) -> Iterator[tuple[Place, str]]:
    for message in read_topic(brokers, DEAD):
        headers = {name: value.decode() for name, value in message.headers()}
        yield (headers["partition"], int(headers["offset"])), headers["reason"]


def _dead_in(path: Path) -> Iterator[tuple[Place, str]]:
    for each in lines([path]):
        yield (each["partition"], each["offset"]), each["reason"]


def _tables(ask: Callable[[str], Iterator[tuple[Any, ...]]]) -> Contents:
    dead = ask('SELECT "partition", "offset", reason FROM dead_letters')
    return Contents(
        alerts=(_body(body) for (body,) in ask("SELECT body FROM alerts")),
        decisions=(_body(body) for (body,) in ask("SELECT body FROM decisions")),
        dead=(((partition, offset), reason) for partition, offset, reason in dead),
        late=((partition, offset) for partition, offset in ask('SELECT "partition", "offset" FROM late_records')),
    )


def _from_sqlite(path: Path, query: str) -> Iterator[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        yield from connection.execute(query)


def _from_postgres(server: LocalPostgres, query: str) -> Iterator[tuple[Any, ...]]:
    with server.connect() as connection, connection.transaction():
        connection.execute("SET LOCAL search_path TO crossline")
        with connection.cursor("rows") as cursor:  # the server gives them bit by bit
            yield from cursor.execute(query)


def _body(body: Any) -> Body:
    return body if isinstance(body, dict) else dict(orjson.loads(body))


def _redis(server: LocalRedis) -> Contents:
    prefix = f"crossline:{NAME}"
    return Contents(
        alerts=_stream(server, f"{prefix}:alerts"),
        ids=(key.rsplit(":", 1)[1] for key in _keys(server, f"{prefix}:alert:*")),
        last=_texts(server, f"{prefix}:decision:{STREAM}:*"),
    )


def _stream(server: LocalRedis, name: str) -> Iterator[Body]:
    with server.client() as client:
        after = "-"
        while found := client.xrange(name, after, count=CHUNK):
            for number, fields in found:
                after = f"({number}"
                yield orjson.loads(fields["alert"])


def _keys(server: LocalRedis, pattern: str) -> Iterator[str]:
    """Each once: a scan may come to a key again."""
    with server.client() as client:
        yield from set(client.scan_iter(pattern, count=CHUNK))


def _texts(server: LocalRedis, pattern: str) -> Iterator[Body]:
    with server.client() as client:
        for keys in chunked(_keys(server, pattern), CHUNK):
            yield from map(orjson.loads, client.mget(keys))
