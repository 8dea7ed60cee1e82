"""Destinations of sinks, which tests read back; one class per kind of sink."""

from __future__ import annotations

import io
import json
import sqlite3
import threading
import uuid
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

import redis
from dev.services.postgres import LocalPostgres

from crossline.io.kafka.sink import KafkaSink
from crossline.io.outbox.encoding import encode_delivery
from crossline.io.outbox.sink import OutboxSink
from crossline.io.postgres.client import address_of
from crossline.io.postgres.rows import rows_of
from crossline.io.postgres.sink import PostgresSink, _insert
from crossline.io.redis.sink import RedisSink
from crossline.io.sinks.base import Delivery, Sink, deliver_all
from crossline.io.sinks.console import ConsoleSink
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.settings.redis import RedisSettings

from .kafka_mock import read_topic
from .postgres_kit import settings_of


class Place(ABC):
    """A place that sinks write to and tests look at.

    ``outlives``: a new process knows what the last one delivered. ``file``: what an operator may delete or move away.
    """

    outlives = True
    file: Path | None = None

    @abstractmethod
    def sink(self) -> Sink:
        """A sink on this place, as a new process would make it."""

    @abstractmethod
    def ids(self) -> list[str]:
        """The ids of the alerts that stand there, in order."""

    @abstractmethod
    def write_half(self, batch: Delivery) -> None:
        """Leave what a process leaves that was killed half way through ``batch``."""


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        self.path = self.file = folder / "new" / "crossline.db"

    def sink(self) -> Sink:
        return SqliteSink(self.path, "p")

    def ids(self) -> list[str]:
        with sqlite3.connect(self.path) as connection:
            rows = connection.execute("SELECT alert_id FROM alerts ORDER BY seq").fetchall()
        connection.close()
        return [row[0] for row in rows]

    def write_half(self, batch: Delivery) -> None:
        sink = SqliteSink(self.path, "p")
        sink.open()
        assert sink._connection is not None
        sink._connection.execute("BEGIN")
        sink._connection.execute("INSERT INTO batches VALUES ('p', ?, 0, 0, 0, '{}', '')", (batch.batch_id,))
        sink._connection.close()  # what a kill does: the transaction never commits


class JsonlPlace(Place):
    def __init__(self, folder: Path) -> None:
        self.path = self.file = folder / "new" / "alerts.jsonl"

    def sink(self) -> Sink:
        return JsonlSink(self.path, "p")

    def ids(self) -> list[str]:
        return [json.loads(line)["alert_id"] for line in self.path.read_text().splitlines()]

    def write_half(self, batch: Delivery) -> None:
        before = self.path.stat().st_size
        sink = self.sink()
        sink.open()
        sink.deliver(batch)
        whole = self.path.read_bytes()
        self.path.write_bytes(whole[: (before + len(whole)) // 2])


class ConsolePlace(Place):
    outlives = False

    def __init__(self, _: Path) -> None:
        self.screen = io.StringIO()

    def sink(self) -> Sink:
        return ConsoleSink(self.screen)

    def ids(self) -> list[str]:
        return [f"id-{line.rpartition('[')[2].rstrip(']')}" for line in self.screen.getvalue().splitlines()]

    def write_half(self, batch: Delivery) -> None:
        raise NotImplementedError


class KafkaPlace(Place):
    def __init__(self, brokers: str, topic: str) -> None:
        self.brokers = brokers
        self.topic = topic

    def sink(self) -> Sink:
        return KafkaSink(self.brokers, self.topic)

    def ids(self) -> list[str]:
        return [json.loads(message.value())["alert_id"] for message in read_topic(self.brokers, self.topic)]

    def write_half(self, batch: Delivery) -> None:
        sink = self.sink()
        sink.open()
        deliver_all([sink], replace(batch, alerts=batch.alerts[: len(batch.alerts) // 2]))


class RedisPlace(Place):
    def __init__(self, port: int) -> None:
        self.settings = RedisSettings(kind="redis", port=port, prefix=f"contract:{uuid.uuid4()}")

    def sink(self) -> Sink:
        return RedisSink(self.settings, "p")

    def ids(self) -> list[str]:
        with redis.Redis(port=self.settings.port, decode_responses=True) as client:
            return [fields["alert_id"] for _, fields in client.xrange(f"{self.settings.prefix}:alerts")]

    def write_half(self, batch: Delivery) -> None:
        sink = self.sink()
        sink.open()
        deliver_all([sink], replace(batch, alerts=batch.alerts[: len(batch.alerts) // 2]))
        sink.close()


class BehindPlace(SqlitePlace):
    """A store that no batch waits for. A kill may leave a file of which a part is written."""

    file = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file, self.folder = None, folder / "behind"
        self.last = self.sink()

    def sink(self) -> OutboxSink:
        self.last = OutboxSink(SqliteSink(self.path, "p"), self.folder)
        return self.last

    def ids(self) -> list[str]:
        if self.last.closed:
            self.sink().open()
        self.last.catch_up(threading.Event())
        return super().ids()

    def write_half(self, batch: Delivery) -> None:
        whole = encode_delivery(batch)
        (self.folder / f"{batch.batch_id:012d}.tmp").write_bytes(whole[: len(whole) // 2])


class PostgresPlace(Place):
    def __init__(self, server: LocalPostgres, schema: str) -> None:
        self.settings = settings_of(server, schema)

    def sink(self) -> Sink:
        return PostgresSink.from_settings(self.settings, "p")

    def ids(self) -> list[str]:
        with address_of(self.settings).connect() as connection:
            return [str(row[0]) for row in connection.execute("SELECT alert_id FROM alerts ORDER BY seq")]

    def write_half(self, batch: Delivery) -> None:
        sink = PostgresSink.from_settings(self.settings, "p")
        sink.open()
        assert sink._connection is not None
        with sink._connection.transaction():
            for rows in rows_of(batch, 0):
                _insert(sink._connection, rows)
            sink._connection.pgconn.finish()  # what a kill does: the transaction never commits
