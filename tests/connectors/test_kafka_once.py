"""The transactional producer: topics get each batch once, over kills and zombie processes."""

from __future__ import annotations

import json
import os
import random
import threading
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from dev.services.broker import LocalBroker
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import SinkError, StateError
from crossline.io.kafka.messages import END_HEADER, Outgoing, dead_message, late_message
from crossline.io.kafka.sink import KafkaSink
from crossline.io.kafka.transactions import open_transactions, transactional_producer
from crossline.io.kafka.transactions.transactional_producer import TransactionalProducer
from crossline.io.sinks.base import Delivery, LateRecord, deliver_all

from .kafka_mock import WAIT_S, mock_brokers, read_topic
from .makers import alert

__all__ = ["mock_brokers"]
pytestmark = pytest.mark.kafka
Topic = Callable[..., str]


KILLS_MIN, KILLS_MAX = 3, 16  # of a broker, a second or two each


def outgoing(topic: str, name: str, size: int = 10) -> Outgoing:
    def cut(limit: int) -> Outgoing:
        return outgoing(topic, name, limit - 200)

    return Outgoing(topic, b"k", random.Random(name).randbytes(size), {"alert_id": name}, cut)  # nothing to compress


def post(broker: LocalBroker, name: str) -> TransactionalProducer:
    return TransactionalProducer({"bootstrap.servers": broker.brokers, "log_level": 0}, name, 30_000)


def give(to: TransactionalProducer, batch_id: int, messages: Iterable[Outgoing]) -> None:
    given = list(messages)
    to.deliver((batch_id, 1_000 + batch_id), list(dict.fromkeys(each.topic for each in given)), lambda: given)


def named(broker: LocalBroker, topic: str) -> list[str]:
    return sorted(dict(message.headers())["alert_id"].decode() for message in read_topic(broker.brokers, topic))


def pending(broker: LocalBroker, name: str, messages: Iterable[Outgoing]) -> Producer:
    """A process that was stopped with its messages in the topic, and nothing committed."""
    producer = Producer({"bootstrap.servers": broker.brokers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for each in messages:
        producer.produce(each.topic, each.value, headers=[(n, v.encode()) for n, v in each.headers.items()])
    assert producer.flush(WAIT_S) == 0
    return producer


def test_a_batch_is_written_once_by_any_producer(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    topic, name = kafka_topic(2), str(uuid.uuid4())
    first, second = post(kafka_broker, name), post(kafka_broker, name)
    give(first, 0, [outgoing(topic, "a"), outgoing(topic, "b")])
    give(second, 0, [outgoing(topic, "a"), outgoing(topic, "b")])  # the next process, or one that is doubled
    give(second, 1, [outgoing(topic, "c")])
    # The first one stood still meanwhile: it gets that as an error, reads the topic, and adds nothing.
    with pytest.raises(SinkError, match="another process has begun under it"):
        give(first, 1, [outgoing(topic, "c")])
    give(first, 1, [outgoing(topic, "c")])
    with pytest.raises(SinkError, match="another process has begun under it"):
        give(second, 2, [outgoing(topic, "d")])
    give(second, 2, [outgoing(topic, "d")])
    for each in (first, second):
        each.drop()
    assert named(kafka_broker, topic) == ["a", "b", "c", "d"]


def test_what_a_killed_process_did_not_commit_is_nobodys(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    topic, name = kafka_topic(1), str(uuid.uuid4())
    killed = pending(kafka_broker, name, [outgoing(topic, "a"), outgoing(topic, "b")])
    after = post(kafka_broker, name)
    give(after, 0, [outgoing(topic, "a"), outgoing(topic, "b")])
    after.drop()
    del killed
    assert named(kafka_broker, topic) == ["a", "b"]


def test_another_checkpoint_counts_its_own_batches(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    topic = kafka_topic(1)
    for name in ("a", "b"):
        one = post(kafka_broker, f"{name}-{topic}")
        give(one, 0, [outgoing(topic, name)])
        one.drop()
    assert named(kafka_broker, topic) == ["a", "b"]


def test_a_number_that_means_another_batch_now_is_reported(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    topic, name = kafka_topic(1), str(uuid.uuid4())
    one = post(kafka_broker, name)
    give(one, 5, [outgoing(topic, "a")])
    for batch in ((4, 1_004), (5, 9_999)):
        with pytest.raises(StateError, match=f"topic {topic} has batch 5 .*--delete --group {name}"):
            one.deliver(batch, [topic], lambda: [outgoing(topic, "b")])
    one.drop()
    assert named(kafka_broker, topic) == ["a"]


def test_a_message_that_fails_without_a_report_keeps_its_transaction_from_being_committed(
    kafka_broker: LocalBroker, kafka_topic: Topic
) -> None:
    """What the quick way rests on: the client says so at the commit, or before."""
    small, topic = kafka_topic(1, config={"max.message.bytes": "100"}), kafka_topic(1)
    one = post(kafka_broker, str(uuid.uuid4()))
    one._begin()
    producer, group = one._clients()
    batch = [outgoing(topic, "a"), outgoing(small, "s", 900), outgoing(topic, "b")]
    with pytest.raises(KafkaException) as caught:
        one._tried(producer, group, (0, 1_000), [topic, small], lambda: batch, {}, ())
    assert caught.value.args[0].txn_requires_abort()
    producer.abort_transaction(WAIT_S)
    give(one, 0, [outgoing(topic, "c")])
    one.drop()
    assert (named(kafka_broker, topic), named(kafka_broker, small)) == (["c"], [])


def test_only_what_was_refused_is_asked_about(
    kafka_broker: LocalBroker, kafka_topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, asked = kafka_topic(1, config={"max.message.bytes": "2000"}), list[bool]()
    one = post(kafka_broker, str(uuid.uuid4()))
    produce = one._produce

    def noted(*given: Any, reported: bool) -> None:
        asked.append(reported)
        produce(*given, reported=reported)

    monkeypatch.setattr(one, "_produce", noted)
    give(one, 0, [outgoing(topic, "a"), outgoing(topic, "b")])
    assert asked == [False, False]
    with capture_logs():
        give(one, 1, [outgoing(topic, "c"), outgoing(topic, "d", 4_000)])
    assert True in asked
    asked.clear()
    give(one, 2, [outgoing(topic, "e")])
    assert asked == [True], "a topic that takes less than the client puts into one request"
    one.drop()
    assert named(kafka_broker, topic) == ["a", "b", "c", "d", "e"]


def test_a_topic_that_takes_nothing_keeps_nothing_from_the_others(
    kafka_broker: LocalBroker, kafka_topic: Topic
) -> None:
    small, topic, name = kafka_topic(1, config={"max.message.bytes": "100"}), kafka_topic(1), str(uuid.uuid4())
    one = post(kafka_broker, name)
    batch = [outgoing(small, "s", 900), outgoing(topic, "a")]
    for _ in range(2):
        with pytest.raises(SinkError, match=f"topic {small} takes no message of"):
            give(one, 0, batch)
        assert named(kafka_broker, topic) == ["a"]
    one.drop()


def test_a_message_that_no_cut_makes_small_enough_is_reported(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    """The name of a letter is not cut, which that of a deep folder's file may make longer than anything else."""
    topic = kafka_topic(1, config={"max.message.bytes": "600"})
    letter = dead_message(topic, DeadLetter("s", "malformed_json", "d", "f" * 460, 7, b"x" * 5_000))
    assert letter.cut(512).size > 750, "with 150 of them counted to be on the safe side"
    settings = {"bootstrap.servers": kafka_broker.brokers, "compression.type": "none"}
    one = TransactionalProducer(settings, str(uuid.uuid4()), 30_000)
    with pytest.raises(SinkError, match=f"topic {topic} takes no message of"):
        give(one, 0, [letter])
    one.drop()


def test_what_is_too_large_is_cut_and_the_rest_is_whole(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    topic, name = kafka_topic(1, config={"max.message.bytes": "20000"}), str(uuid.uuid4())
    one = TransactionalProducer({"bootstrap.servers": kafka_broker.brokers, "compression.type": "none"}, name, 30_000)
    batch = [outgoing(topic, f"{n}", 9_000) for n in range(5)] + [outgoing(topic, "large", 50_000)]
    batch.append(outgoing(topic, "larger than the client takes", 2_000_000))
    with capture_logs() as logs:
        give(one, 3, batch)
    one.drop()
    sizes = {dict(m.headers())["alert_id"].decode(): len(m.value()) for m in read_topic(kafka_broker.brokers, topic)}
    assert {each: sizes.pop(each) for each in "01234"} == dict.fromkeys("01234", 9_000)
    assert sorted(sizes) == ["large", "larger than the client takes"]
    assert all(5_000 < size < 20_000 for size in sizes.values())
    assert sorted(each["name"] for each in logs) == sorted(sizes)


def test_a_sink_knows_a_batch_that_is_larger_than_what_it_reads_back(
    kafka_broker: LocalBroker, kafka_topic: Topic
) -> None:
    topic = kafka_topic(2)
    batch = Delivery("p", 7, alerts=[alert(f"t{n}", key={"account_id": f"a{n}"}) for n in range(200)], checkpoint=topic)
    for given in (batch, batch, replace(batch, batch_id=8, alerts=[alert("more")])):
        sink = KafkaSink(kafka_broker.brokers, topic, dedupe_tail=3, pipeline="p")
        sink.open()
        deliver_all([sink], given)
        deliver_all([sink], given)
        sink.close()
    assert named(kafka_broker, topic) == sorted([*(f"id-t{n}" for n in range(200)), "id-more"])


def test_each_kind_goes_to_its_topic(mock_brokers: str) -> None:
    late = LateRecord("payments", "t9", 1_000, 61_000, 60_000, "payments-1", 5, b"{}")
    alerts = [alert("t1"), alert("t2", kind="correction")]
    sink = KafkaSink(mock_brokers, "alerts", corrections_topic="corrected", late_topic="late")
    sink.open()
    for _ in range(2):
        sink.deliver(Delivery("p", 0, alerts=alerts, late=[late]))
    sink.close()
    for topic, ids in (("alerts", ["id-t1"]), ("corrected", ["id-t2"])):
        assert [json.loads(m.value())["alert_id"] for m in read_topic(mock_brokers, topic)] == ids
    [message] = read_topic(mock_brokers, "late")
    headers = {name: value.decode() for name, value in message.headers()}
    assert headers.pop("late_record_id").startswith("payments/payments-1/5/")
    assert (message.key(), message.value(), headers) == (
        b"t9",
        b"{}",
        {
            "stream": "payments",
            "partition": "payments-1",
            "offset": "5",
            "record_id": "t9",
            "event_time": "1970-01-01T00:00:01.000Z",
            "ingest_time": "1970-01-01T00:01:01.000Z",
            "lateness_ms": "60000",
        },
    )


def test_a_late_record_is_cut_to_what_a_topic_takes() -> None:
    late: Any = LateRecord("payments", "t" * 900, 1_000, 61_000, 60_000, "payments-1", 5, b"x" * 5_000)
    message = late_message("late", late, 1_000)
    assert message.size <= 1_000
    assert message.headers["raw_bytes"] == "5000"
    assert message.name == late_message("late", late).name


def test_a_client_that_does_not_come_back_is_given_up_for_another(
    kafka_broker: LocalBroker, kafka_topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(Producer):
        """Waits for a coordinator that it does not know to be gone."""

        def send_offsets_to_transaction(self, *_: object) -> None:
            threading.Event().wait()

    topic = kafka_topic()
    to = post(kafka_broker, str(uuid.uuid4()))
    with monkeypatch.context() as patch:
        patch.setattr(transactional_producer, "Producer", Deaf)
        patch.setattr(transactional_producer, "_MARKED_S", 0.1)
        with pytest.raises(SinkError, match="another one takes its place"):
            give(to, 0, [outgoing(topic, "a")])
    give(to, 0, [outgoing(topic, "a")])
    give(to, 1, [outgoing(topic, "b")])
    to.drop()
    assert named(kafka_broker, topic) == ["a", "b"]


def test_a_client_that_was_without_brokers_is_not_asked_again(
    kafka_broker: LocalBroker, kafka_topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that comes back may lack the end of the last transaction; one that goes on would end it as undone."""
    body: list[Callable[[KafkaError], None]] = []

    class Received(Producer):
        """Records its calls; the brokers go away in the middle of a flush."""

        def __init__(self, settings: dict[str, Any], **more: Any) -> None:
            super().__init__(settings, **more)
            body.append(settings["error_cb"])

        def flush(self, *wait_s: float) -> int:
            left = super().flush(*wait_s)
            if len(body) == 2:
                body[1](KafkaError(KafkaError._ALL_BROKERS_DOWN))
            return left

    topic = kafka_topic()
    to = post(kafka_broker, str(uuid.uuid4()))
    monkeypatch.setattr(transactional_producer, "Producer", Received)
    give(to, 0, [outgoing(topic, "a")])
    give(to, 1, [outgoing(topic, "b")])
    assert len(body) == 1
    body[0](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    with pytest.raises(SinkError, match="no broker was there"):
        give(to, 2, [outgoing(topic, "c")])
    give(to, 2, [outgoing(topic, "c")])
    assert len(body) == 3
    to.drop()
    assert named(kafka_broker, topic) == ["a", "b", "c"]


@pytest.mark.skipif(os.environ.get("CROSSLINE_DEEP") != "1", reason="CROSSLINE_DEEP=1: brokers of its own")
@pytest.mark.timeout(600)
def test_what_a_lone_broker_was_killed_over_is_not_lost() -> None:
    """Killed in the milliseconds after a commit, a broker may forget its end. Then that is what comes first.

    Whether a kill comes then is chance: the broker is killed until one did.
    """
    names, given = [f"crossline-{number}" for number in range(4)], list[str]()
    with LocalBroker(brief=True) as broker, capture_logs() as logs:
        broker.create_topic("alerts", 2)
        posts = [
            TransactionalProducer({"bootstrap.servers": broker.brokers, "log_level": 0}, name, 10_000) for name in names
        ]

        def held_open() -> list[str]:
            return [partition for each in logs if "held open" in each["event"] for partition in each["partitions"]]

        for batch_id in range(3 * KILLS_MAX):
            for name, to in zip(names, posts, strict=True):
                given.append(f"{name}/{batch_id}")
                with suppress(SinkError):  # there was no broker for a moment
                    give(to, batch_id, [outgoing("alerts", given[-1])])
                give(to, batch_id, [outgoing("alerts", given[-1])])
            if batch_id > KILLS_MIN * 3 and held_open():
                break
            if batch_id % 3 == 0:
                broker.kill()
                broker.start()
        for to in posts:
            to.drop()
        found = [dict(message.headers()) for message in read_topic(broker.brokers, "alerts")]
    assert held_open(), "no kill came between a commit and its end"
    assert len([each for each in found if END_HEADER in each]) == len(held_open())
    assert sorted(each["alert_id"].decode() for each in found if END_HEADER not in each) == sorted(given)


@pytest.mark.parametrize(
    ("group", "java"),
    [("", 0), ("a", 97), ("hello", 99_162_322), ("Aa\u20ac", 73_836), ("polygenelubricants", -(2**31))],
)
def test_the_place_of_a_group_is_that_of_javas_hash(group: str, java: int) -> None:
    """Brokers take the remainder of its absolute value, and 0 for the one that has none."""
    assert [open_transactions._place(group, count) for count in (1, 50, 7)] == [
        0 if java == -(2**31) else abs(java) % count for count in (1, 50, 7)
    ]


def test_a_transaction_that_the_broker_holds_open_is_reported_of(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    """Played by another client, which leaves a transaction open with a number of the group in it."""
    place, name = kafka_topic(1), f"crossline-{uuid.uuid4().hex}"
    other = pending(kafka_broker, f"{name}-other", [])
    group = Consumer({"bootstrap.servers": kafka_broker.brokers, "group.id": name, "log_level": 0})
    other.send_offsets_to_transaction([TopicPartition(place, 0, 7)], group.consumer_group_metadata(), WAIT_S)
    one = TransactionalProducer({"bootstrap.servers": kafka_broker.brokers, "log_level": 0}, name, 1_000)
    with pytest.raises(SinkError, match=r"holds a transaction open .* find-hanging"):
        give(one, 1, [outgoing(place, "a")])
    other.abort_transaction(WAIT_S)
    give(one, 1, [outgoing(place, "a")])
    assert named(kafka_broker, place) == ["a"]
    one.drop()
    group.close()
