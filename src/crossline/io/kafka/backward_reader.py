"""Reads topics backwards: the values of the records before a position, the newest first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from crossline.io.kafka.client import SILENT

STEP, STEP_MAX = 500, 50_000  # records per read of a partition: the first read, the largest
_ASK_S = 5.0
_ASK = {"fetch.wait.max.ms": "10", "enable.partition.eof": "true", "enable.auto.commit": "false", "log_level": "0"}


class BackwardTopicReader:
    """Reads the partitions of ``topics`` backwards, in turns.

    The partition of ``position`` (topic-number, offset) is read from the record at that offset, the others from the
    last record before ``until_ms``, by the topic's clock.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        topics: Sequence[str],
        position: tuple[str, int] | None,
        until_ms: int,
        until_s: float,
    ) -> None:
        self._settings = {**_ASK, **settings, "group.id": "crossline-show"}
        self._topics = topics
        self._position = position
        self._until_ms = until_ms
        self._until_s = until_s
        self.gone: list[str] = []

    def values(self) -> Iterator[tuple[str, int, bytes] | None]:
        """(topic-number, offset, value) of records with a value; None between reads, so that the caller can stop."""
        consumer = Consumer(self._settings, logger=SILENT)
        try:
            yield from self._in_turns(consumer)
        except KafkaException as error:
            self.gone.append(f"the brokers of {', '.join(self._topics)} cannot be reached: {error.args[0]}")
        finally:
            consumer.close()

    def _in_turns(self, consumer: Consumer) -> Iterator[tuple[str, int, bytes] | None]:
        ends = self._ends(consumer)
        begins = {
            (topic, number): consumer.get_watermark_offsets(TopicPartition(topic, number), _ASK_S)[0]
            for topic, number in ends
        }
        for (topic, number), begin in begins.items():
            if begin:
                self.gone.append(f"topic {topic}, partition {number} begins at offset {begin} now")
        step = STEP
        while any(end > begins[place] for place, end in ends.items()):
            for place, end in ends.items():
                start = max(begins[place], end - step)
                if start < end:
                    name = f"{place[0]}-{place[1]}"
                    for message in reversed(self._between(consumer, place, start, end)):
                        value = message.value()
                        if value is not None:
                            yield name, int(message.offset() or 0), bytes(value)
                    ends[place] = start
                yield None
            step = min(2 * step, STEP_MAX)

    def _ends(self, consumer: Consumer) -> dict[tuple[str, int], int]:
        """The end offset of each partition, exclusive; the partition of ``position`` comes first."""
        places: list[tuple[str, int]] = []
        for topic in self._topics:
            found = consumer.list_topics(topic, _ASK_S).topics[topic]
            if found.error is not None:
                self.gone.append(f"topic {topic} is not there any more")
            else:
                places += [(topic, number) for number in found.partitions]
        requests = [TopicPartition(topic, number, self._until_ms) for topic, number in places]
        ends: dict[tuple[str, int], int] = {}
        for each in consumer.offsets_for_times(requests, _ASK_S) if requests else ():
            begin, end = consumer.get_watermark_offsets(each, _ASK_S)
            known = self._position is not None and self._position[0] == f"{each.topic}-{each.partition}"
            if known and self._position is not None:
                ends = {(each.topic, each.partition): max(begin, min(end, self._position[1] + 1)), **ends}
            else:
                ends[each.topic, each.partition] = each.offset if each.offset >= 0 else end
        return ends

    def _between(self, consumer: Consumer, place: tuple[str, int], start: int, end: int) -> list[Message]:
        """The records of a partition at offsets [start, end), as far as they arrive before the deadline."""
        topic, number = place
        consumer.assign([TopicPartition(topic, number, start)])
        found: list[Message] = []
        while (left_s := self._until_s - time.monotonic()) > 0:
            for message in consumer.consume(end - start, min(left_s, 0.2)):
                error = message.error()
                if error is None and int(message.offset() or 0) < end:
                    found.append(message)
                elif error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                    return found
                else:
                    raise KafkaException(error)
            if found and int(found[-1].offset() or 0) >= end - 1:
                return found
        return found
