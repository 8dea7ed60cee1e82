"""Records of a topic again, by their positions: the bytes of dead letters and late records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from crossline.io.kafka.client import SILENT

# Near the end of a topic, where a stream that keeps up reads, the broker would hold each request for 500 ms, hoping for
# more records: so long took every late record. What is read ahead is thrown away, so little of it.
_ASK = {"fetch.wait.max.ms": "10", "fetch.message.max.bytes": "65536"}
# Records in between are read along with those that are wanted, up to so many; past more it is quicker to ask anew.
NEAR = 500


class KafkaRecordFetcher:
    """``fetch("topic-3", [42, 57], until_s)`` -> the values at those offsets, without those that the broker has not."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_ASK, **settings, "group.id": "crossline-fetch", "enable.auto.commit": "false"}
        self._consumer: Consumer | None = None

    def __call__(self, partition: str, offsets: Sequence[int], until_s: float) -> dict[int, bytes]:
        """The values at ``offsets`` of ``partition`` (topic-number), as far as they come before ``until_s``."""
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
        """Put into ``found`` what comes; whoever reads the log in its order meets each that is wanted, or passes it."""
        at = None
        while wanted and (left_s := until_s - time.monotonic()) > 0:
            if at is None or wanted[0] - at > NEAR:
                consumer.assign([TopicPartition(*place, wanted[0])])
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
        """Leave the broker; the next call comes back to it."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
