"""What every sink promises: a delivery made twice, or half and then again, leaves what one delivery leaves."""

from __future__ import annotations

import io
import json
import sqlite3
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.connectors.base import Delivery, Sink, deliver_all
from crossline.connectors.console import ConsoleSink
from crossline.connectors.jsonl import JsonlSink
from crossline.connectors.kafka_sink import KafkaSink
from crossline.connectors.sqlite import SqliteSink

from .kafka_mock import mock_brokers, read_topic
from .makers import alert, delivery

__all__ = ["mock_brokers"]


class Place(ABC):
    """A place that sinks write to and tests look at. ``outlives``: a new process knows what the last one delivered."""

    outlives = True

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
        self.path = folder / "new" / "crossline.db"

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
        self.path = folder / "new" / "alerts.jsonl"

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


def mock_kafka(request: pytest.FixtureRequest) -> Place:
    return KafkaPlace(request.getfixturevalue("mock_brokers"), "alerts")


def real_kafka(request: pytest.FixtureRequest) -> Place:
    broker = request.getfixturevalue("kafka_broker")
    return KafkaPlace(broker.brokers, broker.create_topic(f"alerts-{uuid.uuid4()}", partitions=2))


def on_disk(place: Callable[[Path], Place]) -> Callable[[pytest.FixtureRequest], Place]:
    return lambda request: place(request.getfixturevalue("tmp_path"))


PLACES = [
    pytest.param(on_disk(SqlitePlace), id="sqlite"),
    pytest.param(on_disk(JsonlPlace), id="jsonl"),
    pytest.param(on_disk(ConsolePlace), id="console"),
    pytest.param(mock_kafka, id="kafka-mock"),
    pytest.param(real_kafka, id="kafka", marks=pytest.mark.kafka),
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Any:
    return request.param(request)


@pytest.fixture
def sink(place: Place) -> Iterator[Sink]:
    sink = place.sink()
    sink.open()
    yield sink
    sink.close()


def deliver(sink: Sink, batch: Delivery) -> None:
    """As a pipeline does: a broker may need a moment for a topic just made."""
    deliver_all([sink], batch)


def test_batches_stand_in_the_order_of_their_delivery(place: Place, sink: Sink) -> None:
    deliver(sink, delivery(0, "a", "b"))
    deliver(sink, delivery(1))
    deliver(sink, delivery(2, "c"))
    assert place.ids() == ["id-a", "id-b", "id-c"]


def test_the_same_batch_again_changes_nothing(place: Place, sink: Sink) -> None:
    deliver(sink, delivery(0, "a", "b"))
    deliver(sink, delivery(0, "a", "b"))
    deliver(sink, delivery(1, "c"))
    assert place.ids() == ["id-a", "id-b", "id-c"]


def test_the_same_batch_from_a_new_process_changes_nothing(place: Place, sink: Sink) -> None:
    if not place.outlives:
        pytest.skip("promises nothing across processes")
    deliver(sink, delivery(0, "a"))
    deliver(sink, delivery(1, "b", "c"))
    sink.close()
    again = place.sink()
    again.open()
    deliver(again, delivery(1, "b", "c"))
    deliver(again, delivery(2, "d"))
    again.close()
    assert place.ids() == ["id-a", "id-b", "id-c", "id-d"]


def test_a_batch_half_written_before_a_kill_is_completed(place: Place, sink: Sink) -> None:
    if not place.outlives:
        pytest.skip("promises nothing across processes")
    deliver(sink, delivery(0, "a"))
    sink.close()
    place.write_half(delivery(1, "b", "c", "d"))
    again = place.sink()
    again.open()
    deliver(again, delivery(1, "b", "c", "d"))
    again.close()
    assert place.ids() == ["id-a", "id-b", "id-c", "id-d"]


def test_a_pipeline_begun_again_from_its_first_batch_adds_only_what_is_new(place: Place, sink: Sink) -> None:
    if not place.outlives:
        pytest.skip("promises nothing across processes")
    deliver(sink, delivery(0, "a", "b"))
    deliver(sink, delivery(1, "c"))
    sink.close()
    again = place.sink()
    again.open()
    # The checkpoint is gone, and the batches are cut elsewhere.
    deliver(again, delivery(0, "a"))
    deliver(again, delivery(1, "b", "c", "d"))
    deliver(again, delivery(2, "e"))
    again.close()
    assert place.ids() == ["id-a", "id-b", "id-c", "id-d", "id-e"]


def test_an_alert_twice_in_one_batch_stands_once(place: Place, sink: Sink) -> None:
    if isinstance(place, ConsolePlace):
        pytest.skip("prints what it is given")
    deliver(sink, Delivery("p", 0, alerts=[alert("a"), alert("a")]))
    assert place.ids() == ["id-a"]


def test_closing_twice_is_harmless(place: Place, sink: Sink) -> None:
    deliver(sink, delivery(0, "a"))
    sink.close()
    sink.close()
