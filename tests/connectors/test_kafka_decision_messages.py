"""Decisions as Kafka messages: as columns and one by one they are the same, whatever is refused on the way."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Message
from dev.services.broker import LocalBroker
from hypothesis import given
from hypothesis import strategies as st

from crossline.io.kafka.decision_messages import DecisionMessages, decision_messages
from crossline.io.kafka.messages import Outgoing
from crossline.io.kafka.sink import KafkaSink
from crossline.io.kafka.transactions.transactional_producer import TransactionalProducer
from crossline.io.sinks.base import Delivery

from .decision_lines import as_lines
from .kafka_mock import read_topic
from .makers import alert
from .test_decisions import decision

Topic = Callable[..., str]
NAMES = st.lists(st.sampled_from("abcdefgh"), max_size=12)


def columns(names: Sequence[str]) -> DecisionMessages:
    """With values that tell two of one name apart."""
    numbered = [f"{name}{n}".encode() for n, name in enumerate(names)]
    return DecisionMessages("t", numbered, numbered, list(names))


def plain(messages: Sequence[Outgoing]) -> list[tuple[str, bytes | None, bytes, dict[str, str]]]:
    return [(each.topic, each.key, each.value, each.headers) for each in messages]


@given(NAMES, st.lists(st.sets(st.sampled_from("abcdefgh")), max_size=3))
def test_those_that_are_known_are_left_out_and_of_one_name_the_first_stays(
    names: list[str], known: list[set[str]]
) -> None:
    expected = list[Outgoing]()
    for each in columns(names):
        if not any(each.name in some for some in known) and each.name not in [one.name for one in expected]:
            expected.append(each)
    found = columns(names).without(known)
    assert len(found) == len(expected)
    assert plain(list(found)) == plain(expected)


@given(st.lists(st.sampled_from([None, "one", "two"]), max_size=8), st.sampled_from([None, "all"]))
def test_each_goes_to_its_topic_in_its_order(topics: list[str | None], topic: str | None) -> None:
    values = [decision(f"t{n}", sink_topic=mine) for n, mine in enumerate(topics)]
    found = decision_messages(as_lines(values).columns, topic)
    assert len({each.topic for each in found}) == len(found)
    every = [message for each in found for message in each]
    for mine in {topic} if topic else {"one", "two"}:
        wanted = [each for each in values if topic or each["sink_topic"] == mine]
        assert [json.loads(each.value) for each in every if each.topic == mine] == wanted
        assert [(each.key, each.name) for each in every if each.topic == mine] == [
            (each["record_id"].encode(), each["decision_id"]) for each in wanted
        ]


def named(messages: Sequence[Message]) -> dict[str, Any]:
    """By id, each of which is there once, key and value."""
    found = {dict(each.headers())["decision_id"].decode(): (each.key(), json.loads(each.value())) for each in messages}
    assert len(found) == len(messages)
    return found


@pytest.mark.kafka
def test_a_queue_that_is_full_and_one_that_is_too_large_cost_no_other(
    kafka_broker: LocalBroker, kafka_topic: Topic
) -> None:
    """More than the client's queue holds, once without and once with a decision that the client refuses."""
    topic, other = kafka_topic(1), kafka_topic(1)
    settings = {"bootstrap.servers": kafka_broker.brokers, "queue.buffering.max.messages": 100}
    producer = TransactionalProducer(settings, str(uuid.uuid4()), 60_000)
    whole = [decision(f"t{n}", sink_topic=topic) for n in range(1_500)]
    reasons = [{"rule_id": f"r{n}", "message": "m" * 50_000} for n in range(40)]
    more = [decision(f"u{n}", sink_topic=topic, **({"reasons": reasons} if n == 700 else {})) for n in range(1_200)]
    for batch, values in enumerate((whole, more)):
        of_other = [decision(f"o{batch}", sink_topic=other)]
        decisions = decision_messages(as_lines([*values, *of_other]).columns)
        for _ in range(2):
            producer.deliver((batch, 1_000 + batch), [topic, other], tuple, decisions)
    producer.drop()
    found = named(read_topic(kafka_broker.brokers, topic))
    assert found.keys() == {each["decision_id"] for each in (*whole, *more)}
    cut = found.pop("d-u700")[1]
    assert (cut["decision"], cut["cut"]["bytes"] > 2_000_000) == ("step_up", True)
    assert found == {
        each["decision_id"]: (each["record_id"].encode(), each)
        for each in (*whole, *more)
        if each["decision_id"] != "d-u700"
    }
    assert named(read_topic(kafka_broker.brokers, other)).keys() == {"d-o0", "d-o1"}


@pytest.mark.kafka
def test_with_a_new_checkpoint_what_stands_is_not_sent_again(kafka_broker: LocalBroker, kafka_topic: Topic) -> None:
    """Decisions and alerts of one delivery, cut otherwise by the next process, which counts anew."""
    topic, alerts = kafka_topic(2), kafka_topic(1)
    values = [decision(f"t{n}", sink_topic=topic) for n in range(20)]
    for checkpoint, start in (("one", 0), ("two", 5)):
        sink = KafkaSink(kafka_broker.brokers, alerts, pipeline="p")
        sink.open()
        for batch, at in enumerate(range(start, 20, 5)):
            mine = as_lines(values[at : at + 10], kept=[0])
            for _ in range(2):
                sink.deliver(Delivery("p", batch, [alert(f"a{at}")], decisions=mine, checkpoint=checkpoint, began_ms=1))
        sink.close()
    assert named(read_topic(kafka_broker.brokers, topic)).keys() == {each["decision_id"] for each in values}
    assert len(read_topic(kafka_broker.brokers, alerts)) == 4
