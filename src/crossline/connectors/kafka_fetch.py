"""One record of a topic again, by its position: the bytes of dead letters and late records."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

WAIT_S = 5.0
# Near the end of a topic, where a stream that keeps up reads, the broker would hold each request for 500 ms, hoping for
# more records: so long took every late record. What is read ahead is thrown away, so little of it.
_ASK = {"fetch.wait.max.ms": "10", "fetch.message.max.bytes": "65536"}


class KafkaFetch:
    """``fetch("topic-3", 42)`` -> the value at that offset; None where the broker no longer has it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_ASK, **settings, "group.id": "crossline-fetch", "enable.auto.commit": "false"}
        self._consumer: Consumer | None = None

    def __call__(self, partition: str, offset: int) -> bytes | None:
        """The value at ``offset`` of ``partition`` (topic-number)."""
        topic, _, number = partition.rpartition("-")
        if self._consumer is None:
            self._consumer = Consumer(self._settings)
        try:
            self._consumer.assign([TopicPartition(topic, int(number), offset)])
            message = self._consumer.poll(WAIT_S)
            self._consumer.unassign()  # else it goes on reading
        except KafkaException:
            return None
        if message is None or message.error() or message.offset() != offset:
            return None
        value = message.value()
        return bytes(value) if value is not None else None

    def close(self) -> None:
        """Leave the broker; the next call comes back to it."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
