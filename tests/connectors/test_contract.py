"""The contract of every sink.

A delivery made twice, or half and then again, leaves what one delivery leaves, whatever the numbers of its batches;
a loss that no one would notice holds the batch; and no sink's fault keeps another from its batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import PermanentError, SinkError
from crossline.io.sinks.base import Delivery, RetryPolicy, Sink, deliver_all

from .kafka_mock import mock_brokers
from .makers import alert, delivery
from .places import (
    BehindPlace,
    ConsolePlace,
    JsonlPlace,
    KafkaPlace,
    Place,
    PostgresPlace,
    RedisPlace,
    SqlitePlace,
)

__all__ = ["mock_brokers"]


def mock_kafka(request: pytest.FixtureRequest) -> Place:
    return KafkaPlace(request.getfixturevalue("mock_brokers"), "alerts")


def real_kafka(request: pytest.FixtureRequest) -> Place:
    broker = request.getfixturevalue("kafka_broker")
    return KafkaPlace(broker.brokers, broker.create_topic(f"alerts-{uuid.uuid4()}", partitions=2))


def real_postgres(request: pytest.FixtureRequest) -> Place:
    return PostgresPlace(request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_schema"))


def on_disk(place: Callable[[Path], Place]) -> Callable[[pytest.FixtureRequest], Place]:
    return lambda request: place(request.getfixturevalue("tmp_path"))


PLACES = [
    pytest.param(on_disk(SqlitePlace), id="sqlite"),
    pytest.param(on_disk(JsonlPlace), id="jsonl"),
    pytest.param(on_disk(BehindPlace), id="behind"),
    pytest.param(on_disk(ConsolePlace), id="console"),
    pytest.param(lambda request: RedisPlace(request.getfixturevalue("redis_server").port), id="redis"),
    pytest.param(mock_kafka, id="kafka-mock"),
    pytest.param(real_postgres, id="postgres", marks=pytest.mark.xdist_group("postgres")),
    # Its broker is asked for where no fixture of the test's own names it.
    pytest.param(real_kafka, id="kafka", marks=[pytest.mark.kafka, pytest.mark.xdist_group("kafka")]),
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


CUTS = {
    "the same": [("a",), ("b", "c"), ("d", "e")],
    "larger": [("a", "b", "c"), ("d", "e", "f")],
    "smaller": [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)],
    "later": [(), (), (), (), ("a", "b"), ("c", "d", "e", "f")],
    "with what is new in between": [("a", "f"), ("g", "b", "c"), ("h", "d")],
}


@pytest.mark.parametrize("cut", list(CUTS))
def test_a_pipeline_begun_again_adds_only_what_is_new_however_it_is_cut(place: Place, sink: Sink, cut: str) -> None:
    if not place.outlives:
        pytest.skip("promises nothing across processes")
    before = [("a",), ("b", "c"), ("d", "e")]
    for number, names in enumerate(before):
        deliver(sink, delivery(number, *names))
    sink.close()
    again = place.sink()
    again.open()
    # The checkpoint is gone: numbers begin anew, and batches may be cut elsewhere.
    for number, names in enumerate(CUTS[cut]):
        deliver(again, delivery(number, *names))
    again.close()
    known = [name for names in before for name in names]
    new = [name for names in CUTS[cut] for name in names if name not in known]
    assert sorted(place.ids()) == sorted(f"id-{name}" for name in [*known, *new])


def test_a_place_moved_away_while_it_is_written_holds_the_batch_until_it_is_back(place: Place, sink: Sink) -> None:
    if place.file is None:
        pytest.skip("no file")
    deliver(sink, delivery(0, "a"))
    moved = place.file.with_name("moved")
    place.file.rename(moved)
    for _ in range(2):
        with pytest.raises(SinkError, match=f"{place.file} was deleted or moved away"):
            sink.deliver(delivery(1, "b"))
    place.file.touch()
    with pytest.raises(SinkError, match=f"{place.file} is another file"):
        sink.deliver(delivery(1, "b"))
    moved.rename(place.file)
    deliver(sink, delivery(1, "b"))
    assert place.ids() == ["id-a", "id-b"]


def test_a_place_deleted_while_it_is_written_is_begun_anew_by_the_next_start(place: Place, sink: Sink) -> None:
    if place.file is None:
        pytest.skip("no file")
    deliver(sink, delivery(0, "a"))
    place.file.unlink()
    with pytest.raises(SinkError, match="deleted"):
        sink.deliver(delivery(1, "b"))
    sink.close()
    again = place.sink()
    again.open()
    deliver(again, delivery(1, "b"))
    deliver(again, delivery(2, "c"))
    again.close()
    assert place.ids() == ["id-b", "id-c"]


@pytest.mark.parametrize("position", ["first", "last"])
@pytest.mark.parametrize("error", [PermanentError("broken"), KeyError("a bug"), SinkError("down")])
def test_the_fault_of_another_sink_keeps_it_from_no_batch(
    place: Place, sink: Sink, error: Exception, position: str
) -> None:
    other = Failing(error)
    sinks: list[Sink] = [other, sink] if position == "first" else [sink, other]
    with capture_logs(), pytest.raises(type(error)):
        deliver_all(sinks, delivery(0, "a", "b"), RetryPolicy(initial_ms=10, attempts_max=5, grace_ms=30_000))
    assert place.ids() == ["id-a", "id-b"]
    # The other is mended: the batch comes again, and stands there once.
    deliver_all([sink], delivery(0, "a", "b"))
    deliver_all([sink], delivery(1, "c"))
    assert place.ids() == ["id-a", "id-b", "id-c"]


class Failing:
    """Fails each time."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Failing:
        raise NotImplementedError

    def open(self) -> None: ...

    def deliver(self, delivery: Delivery) -> None:  # noqa: ARG002 - the protocol's
        raise self.error

    def close(self) -> None: ...


def test_all_kinds_together_take_each_batch_once(tmp_path: Path, mock_brokers: str) -> None:
    places: list[Place] = [
        SqlitePlace(tmp_path / "s"),
        JsonlPlace(tmp_path / "j"),
        ConsolePlace(tmp_path),
        KafkaPlace(mock_brokers, "alerts"),
    ]
    sinks = [place.sink() for place in places]
    for sink in sinks:
        sink.open()
    for number in range(20):
        deliver_all(sinks, delivery(number, f"{number}-a", f"{number}-b"))
    for sink in sinks:
        sink.close()
    expected = [f"id-{number}-{letter}" for number in range(20) for letter in "ab"]
    assert [sorted(place.ids()) for place in places] == [sorted(expected)] * len(places)


def test_an_alert_twice_in_one_batch_stands_once(place: Place, sink: Sink) -> None:
    if isinstance(place, ConsolePlace):
        pytest.skip("prints what it is given")
    deliver(sink, Delivery("p", 0, alerts=[alert("a"), alert("a")]))
    assert place.ids() == ["id-a"]


def test_closing_twice_is_harmless(place: Place, sink: Sink) -> None:
    deliver(sink, delivery(0, "a"))
    sink.close()
    sink.close()
