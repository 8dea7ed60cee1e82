"""Reads topics from their first offset, partition by partition, to evaluate their records again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from crossline.basics.errors import SourceError, UsageError
from crossline.io.kafka.client import SILENT

SILENT_S_MAX = 30.0
_ASK_S, _TOGETHER = 10.0, 10_000
_SETTINGS = {"fetch.wait.max.ms": "50", "enable.partition.eof": "true", "enable.auto.commit": "false", "log_level": "0"}


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """The offsets [begin, end) of a partition. Records before ``begin`` were deleted."""

    topic: str
    number: int
    begin: int
    end: int

    @property
    def name(self) -> str:
        """``topic-number``."""
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of a topic. ``at_ms``: its timestamp (CreateTime or LogAppendTime), in epoch milliseconds."""

    offset: int
    at_ms: int
    value: bytes


class ForwardTopicReader:
    """Reads the partitions of ``topics`` up to their ends at construction; with ``until_ms``, up to that instant.

    Raises UsageError for a topic that does not exist, SourceError where the brokers do not answer.

    Example:
        .. code-block:: python

            with closing(KafkaForward(settings, ["payments"])) as topic:
                for span in topic.spans:
                    records = list(topic.records(span))
    """

    def __init__(self, settings: Mapping[str, str], topics: Sequence[str], until_ms: int | None = None) -> None:
        self._topics = topics
        self._consumer = Consumer({**_SETTINGS, **settings, "group.id": "crossline-verify"}, logger=SILENT)
        try:
            self.spans = [span for topic in topics for span in self._spans(topic, until_ms)]
        except KafkaException as error:
            self.close()
            raise self._silent(error.args[0].str()) from None
        except BaseException:
            self.close()
            raise

    def _spans(self, topic: str, until_ms: int | None) -> Iterator[PartitionSpan]:
        found = self._consumer.list_topics(topic, _ASK_S).topics[topic]
        if found.error is not None:
            raise UsageError(f"topic {topic}: {found.error.str()}; expected the topic that the pipeline reads")
        numbers, ends = sorted(found.partitions), dict[int, int]()
        if until_ms is not None:
            requests = [TopicPartition(topic, number, until_ms) for number in numbers]
            ends = {each.partition: each.offset for each in self._consumer.offsets_for_times(requests, _ASK_S)}
        for number in numbers:
            begin, end = self._consumer.get_watermark_offsets(TopicPartition(topic, number), _ASK_S)
            first_after = ends.get(number, -1)
            yield PartitionSpan(topic, number, begin, min(end, first_after) if first_after >= 0 else end)

    def records(self, span: PartitionSpan) -> Iterator[TopicRecord]:
        """The records of ``span`` with a value, in offset order."""
        if span.begin >= span.end:
            return
        self._consumer.assign([TopicPartition(span.topic, span.number, span.begin)])
        received_s = time.monotonic()
        while True:
            for message in self._consumer.consume(_TOGETHER, 0.5):
                received_s, error = time.monotonic(), message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                    return
                if error is not None:
                    raise self._silent(error.str())
                offset = int(message.offset() or 0)
                if offset >= span.end:
                    return
                yield from _record(message, offset)
                if offset == span.end - 1:
                    return
            if time.monotonic() - received_s > SILENT_S_MAX:
                raise self._silent(f"nothing came of {span.name} for {SILENT_S_MAX:.0f} s")

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _silent(self, why: str) -> SourceError:
        return SourceError(f"topic {', '.join(self._topics)} cannot be read: {why}; see that its brokers are up")


def _record(message: Message, offset: int) -> Iterator[TopicRecord]:
    value = message.value()
    if value is not None:
        yield TopicRecord(offset, int(message.timestamp()[1]), bytes(value))
