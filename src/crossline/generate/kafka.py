"""Sends generated records to a Kafka topic, keyed by account, each with the time at which it was due in a header."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from crossline.basics.errors import SinkError, UsageError
from crossline.generate.send import RecordBatch

# Epoch microseconds in decimal digits: when the record was due, or, without a rate, when the client was given it.
SENT_HEADER = "crossline_sent_us"
ANSWER_S_MAX = 10.0
FLUSH_S_MAX = 60.0
FULL_QUEUE_WAIT_S = 0.01
SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    # The same partition for a key as the Java clients choose.
    "partitioner": "murmur2_random",
    "linger.ms": 1,
    "compression.type": "lz4",
    # Room for what an open loop goes on sending while the broker is away.
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
}


class KafkaTarget:
    """Idempotent producer: each record once and in order, unless this process is run again. Key: ``account_id``."""

    needs_keys = True

    def __init__(self, brokers: str, topic: str, settings: dict[str, Any] | None = None) -> None:
        self._topic = topic
        self._brokers = brokers
        self._failed = 0
        self._failure: KafkaError | None = None
        try:
            self._producer = Producer({**SETTINGS, "bootstrap.servers": brokers, **(settings or {})})
        except KafkaException as error:
            raise UsageError(f"the Kafka client refuses its settings: {error.args[0].str()}") from None
        try:
            self._producer.list_topics(topic, timeout=ANSWER_S_MAX)
        except KafkaException as error:
            message = f"no answer from Kafka at {brokers}: {error.args[0].str()}; is it running, is --brokers right?"
            raise SinkError(message) from error

    def send(self, batch: RecordBatch, low: int, high: int, due_us: float, step_us: float) -> int:
        """Hand the records to the client, which sends them on its own thread."""
        taken = 0
        for index in range(low, high):
            sent_us = due_us + (index - low) * step_us if step_us else time.time() * 1e6
            value = self.value(batch.lines[index][:-1])
            self._produce(value, batch.keys[index], [(SENT_HEADER, b"%d" % sent_us)])
            taken += len(value)
        self._producer.poll(0)
        return taken

    def value(self, line: bytes) -> bytes:
        """What is sent for a record, whose JSON is given."""
        return line

    def close(self) -> None:
        """Wait until all is acknowledged; SinkError says how many records were not."""
        left = self._producer.flush(FLUSH_S_MAX)
        if left or self._failed:
            why = f": {self._failure.str()}" if self._failure else ""
            raise SinkError(f"{left + self._failed} records did not reach topic {self._topic} at {self._brokers}{why}")

    def _produce(self, value: bytes, key: bytes, headers: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key=key, headers=headers, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(FULL_QUEUE_WAIT_S)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        del message
        if error is not None:
            self._failed += 1
            self._failure = error
