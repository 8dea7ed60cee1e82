"""Transactions that are over and have no end: where they block a topic, and where one of the same name can end them.

A broker that is alone and comes back takes for written what ends it still has to write, while it knows no leader of the
partitions yet ("Couldn't find leader endpoint … skipped" in its log; Kafka 4.3). Nobody reads on in such a partition.
The next end under the same name, commit or abort, ends all that is open there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from crossline.io.kafka.client_factory import client_of

_ASK_S = 5.0
_OFFSETS = "__consumer_offsets"


def held_open(client: Mapping[str, Any], name: str, places: Sequence[TopicPartition]) -> bool:
    """Whether the brokers do answer, but for what a transaction has under way: all of ``name`` is over by now."""
    settings = {**client, "log_level": 0, "group.id": name, "enable.auto.commit": False}
    reader = client_of(Consumer, {**settings, "isolation.level": "read_uncommitted"})
    try:
        reader.committed(list(places), _ASK_S)
    except KafkaException:
        return False
    finally:
        reader.close()
    return True


def blocked(client: Mapping[str, Any], name: str, topics: Iterable[str]) -> list[TopicPartition]:
    """Where something is open, be it of others: in partitions of ``topics``, and of those that ``name`` has numbers of.

    Raises KafkaException as the client does.
    """
    settings = {**client, "log_level": 0, "group.id": name}
    whole = client_of(Consumer, {**settings, "isolation.level": "read_uncommitted"})
    decided = client_of(Consumer, {**settings, "isolation.level": "read_committed"})
    try:
        return [
            TopicPartition(topic, number)
            for topic in sorted({*topics, *_numbered(settings, name)})
            for number in sorted(whole.list_topics(topic, _ASK_S).topics[topic].partitions)
            if _end(decided, topic, number) < _end(whole, topic, number)
        ]
    finally:
        whole.close()
        decided.close()


def group_beside(client: Mapping[str, Any], name: str) -> str | None:
    """A group of no numbers, that are kept in the same partition as those of ``name``; None where that is not known.

    Raises KafkaException as the client does.
    """
    admin = client_of(AdminClient, {**client, "log_level": 0})
    partitions = len(admin.list_topics(_OFFSETS, _ASK_S).topics[_OFFSETS].partitions)
    if not partitions:
        return None  # the user may not see it
    place = _place(name, partitions)
    return next(each for each in (f"{name}-end-{n}" for n in itertools.count()) if _place(each, partitions) == place)


def _numbered(settings: Mapping[str, Any], name: str) -> set[str]:
    """The topics that ``name`` has numbers of."""
    admin = client_of(AdminClient, {key: value for key, value in settings.items() if key != "group.id"})
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], request_timeout=_ASK_S)
    found: list[TopicPartition] = futures[name].result().topic_partitions
    return {each.topic for each in found}


def _end(reader: Consumer, topic: str, number: int) -> int:
    """The offset that this reader comes to."""
    ends = reader.get_watermark_offsets(TopicPartition(topic, number), _ASK_S)
    if ends is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer about {topic}-{number} in {_ASK_S:.0f} s"))  # noqa: SLF001
    return int(ends[1])


def _place(group: str, partitions: int) -> int:
    """The partition that brokers keep the numbers of a group in: by Java's hash of a text, in UTF-16."""
    units = memoryview(group.encode("utf-16-le")).cast("H")
    number = 0
    for unit in units:
        number = (number * 31 + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >> 31 else number
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def raise_if_failed(producer: Producer) -> None:
    """Raise where the transaction under way has failed, which without reports shows by the next call of it alone."""
    try:
        producer.begin_transaction()  # asks no broker, and changes nothing: one is under way
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            raise
