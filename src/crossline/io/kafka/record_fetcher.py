"""Reads single records of a topic again, by offset: the bytes of dead letters and late records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from crossline.io.kafka.client import SILENT

# At the end of a topic the broker holds each fetch for fetch.wait.max.ms (500 ms by default) until more records come:
# every late record took that long. Records read ahead are discarded, so few are.
_ASK = {"fetch.wait.max.ms": "10", "fetch.message.max.bytes": "65536"}
# A gap of up to this many records is read and skipped; a larger gap is quicker to seek over.
NEAR = 500


class KafkaRecordFetcher:
    """``fetch("topic-3", [42, 57], until_s)`` -> the values at those offsets, without deleted records."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_ASK, **settings, "group.id": "crossline-fetch", "enable.auto.commit": "false"}
        self._consumer: Consumer | None = None

    def __call__(self, partition: str, offsets: Sequence[int], until_s: float) -> dict[int, bytes]:
        """The values at ``offsets`` of ``partition`` (topic-number), as far as they arrive before ``until_s``."""
        topic, _, number = partition.rpartition("-")
        if self._consumer is None:
            self._consumer = Consumer(self._settings, logger=SILENT)
        found: dict[int, bytes] = {}
        try:
            self._read(self._consumer, (topic, int(number)), deque(sorted(offsets)), until_s, found)
            self._consumer.unassign()  # else it goes on reading
        except KafkaException:
            return found
        return found

    @staticmethod
    def _read(
        consumer: Consumer, place: tuple[str, int], wanted: deque[int], until_s: float, found: dict[int, bytes]
    ) -> None:
        """Read forwards and put the wanted values into ``found``; an offset that is passed does not exist."""
        at, (topic, number) = None, place
        while wanted and (left_s := until_s - time.monotonic()) > 0:
            if at is None or wanted[0] - at > NEAR:
                consumer.assign([TopicPartition(topic, number, wanted[0])])
            message = consumer.poll(left_s)
            if message is None or message.error():
                return
            at = int(message.offset())
            while wanted and wanted[0] < at:
                wanted.popleft()  # the broker no longer has it
            if wanted and wanted[0] == at:
                wanted.popleft()
                value = message.value()
                if value is not None:
                    found[at] = bytes(value)

    def close(self) -> None:
        """Close the consumer; the next call opens another."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
