"""Reads topics by ranges of offsets, each of which begins at the end of the range before."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from crossline.io.kafka.client import SILENT
from crossline.io.kafka.unavailable_range import Place, Range, RangeUnavailableError

AT_ONCE = 2_000  # records per call of the client
ANSWER_S = 10.0
SLICE = 16_000  # records of a partition per slice
_ASK = {
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "auto.offset.reset": "error",  # never skip deleted records
    "queued.max.messages.kbytes": "16384",  # read ahead per partition
    "fetch.queue.backoff.ms": "5",  # of a full queue; the default is a second
    "log_level": "0",
}


class KafkaRangeReader:
    """Reads ahead of the requested ranges, so that most ranges are in memory when they are requested."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_ASK, **settings, "group.id": "crossline-tail"}
        self._consumer: Consumer | None = None
        self._held: dict[Place, list[Message]] = {}
        self._done: dict[Place, int] = {}
        self._read_to: dict[Place, int] = {}

    def read(self, ranges: Mapping[Place, Range], patience_s: float) -> Generator[tuple[Place, list[Message]]]:
        """The records of each range by their offsets, in slices as they come.

        Raises:
            RangeUnavailableError: No record came for ``patience_s``, the first offset was deleted, or the broker
                reports an error. The caller reads the range another way, which reports the cause.
        """
        try:
            self._go_to({place: start for place, (start, _) in ranges.items()})
            left, until_s = self._left(ranges), time.monotonic() + patience_s
            while left > 0:
                self._fill(until_s - time.monotonic())
                for place, (_, end) in ranges.items():
                    if len(self._held[place]) >= SLICE and (messages := self._next_slice(place, end)):
                        yield place, messages
                before, left = left, self._left(ranges)
                if left < before:
                    until_s = time.monotonic() + patience_s
            for place, (_, end) in ranges.items():
                while messages := self._next_slice(place, end):
                    yield place, messages
                self._done[place] = end
        except KafkaException as error:
            self.rest()
            raise RangeUnavailableError(str(error)) from error
        except BaseException:  # also GeneratorExit: the caller may stop early
            self.rest()
            raise

    def buffered(self, starts: Mapping[Place, int], wait_s: float, enough: int) -> tuple[int, dict[Place, int]]:
        """How many records are in memory from ``starts`` on, and where they end, by partition.

        Waits up to ``wait_s`` for the first of them, and takes in no more once there are ``enough``. Raises
        RangeUnavailableError as ``read``.
        """
        try:
            self._go_to(starts)
            until_s = time.monotonic() + wait_s
            while self._count() < enough and self._take(0):  # a call gives AT_ONCE of them
                pass
            while not self._count() and (left_s := until_s - time.monotonic()) > 0:
                self._take(left_s)
        except KafkaException as error:
            self.rest()
            raise RangeUnavailableError(str(error)) from error
        except BaseException:
            self.rest()
            raise
        return self._count(), dict(self._read_to)

    def rest(self) -> None:
        """Stop reading ahead; the next range starts with a seek."""
        self._held, self._done, self._read_to = {}, {}, {}
        if self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.unassign()

    def first_offset(self, place: Place) -> int:
        """The first offset that the topic still has in the partition; 0 where the broker does not say."""
        if self._consumer is None:
            self._consumer = Consumer(self._settings, logger=SILENT)
        with suppress(KafkaException):
            found = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=ANSWER_S, cached=False)
            return 0 if found is None else int(found[0])
        return 0

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _go_to(self, starts: Mapping[Place, int]) -> None:
        if self._consumer is None:
            self._consumer = Consumer(self._settings, logger=SILENT)
        if starts == self._done:
            return
        self._done = dict(starts)
        self._read_to = dict(starts)
        self._held = {place: [] for place in starts}
        self._consumer.assign([TopicPartition(topic, number, start) for (topic, number), start in self._done.items()])

    def _count(self) -> int:
        """How many records are held."""
        return sum(map(len, self._held.values()))

    def _left(self, ranges: Mapping[Place, Range]) -> int:
        """How many offsets of the ranges are still to be read."""
        return sum(max(0, end - self._read_to[place]) for place, (_, end) in ranges.items())

    def _fill(self, wait_s: float) -> None:
        """Wait for records of the client."""
        if wait_s <= 0 or not self._take(wait_s):
            raise RangeUnavailableError("its records did not come in time")

    def _take(self, wait_s: float) -> bool:
        """Take what the client has, after up to ``wait_s``; whether it had anything.

        Offsets may be missing: a later record, or the end event, shows the end.
        """
        consumer = self._consumer
        # Wait for the first record, then take what is buffered: a request for many waits for all of them.
        first = consumer.poll(wait_s) if consumer is not None else None
        if consumer is None or first is None:
            return False
        messages = [first, *consumer.consume(AT_ONCE, 0)]
        errors = [message.error() for message in messages]
        records = [message for message, error in zip(messages, errors, strict=True) if error is None]
        for place, mine in _runs(records, one_topic=len({topic for topic, _ in self._held}) == 1):
            self._held[place] += mine
            self._read_to[place] = int(mine[-1].offset() or 0) + 1
        for message, error in zip(messages, errors, strict=True) if len(records) < len(messages) else ():
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's public name
                raise RangeUnavailableError(str(error))
            if error is not None:
                place = _place_of(message)
                self._read_to[place] = max(self._read_to[place], int(message.offset() or 0))
        return True

    def _next_slice(self, place: Place, end: int) -> list[Message]:
        """The next slice of records before ``end``."""
        held = self._held[place]
        messages = held[:SLICE]
        if messages and int(messages[-1].offset() or 0) >= end:
            del messages[bisect_left(messages, end, key=lambda message: int(message.offset() or 0)) :]
        del held[: len(messages)]
        return messages


def _place_of(message: Message) -> Place:
    return str(message.topic()), int(message.partition() or 0)


def _runs(records: Sequence[Message], *, one_topic: bool) -> Iterator[tuple[Place, list[Message]]]:
    """The records of one partition after the other, in their order: the client gives many of one at a time."""
    places = [message.partition() if one_topic else _place_of(message) for message in records]
    cuts = [at for at in range(1, len(records)) if places[at] != places[at - 1]]
    for first, end in pairwise([0, *cuts, len(records)]):
        if first < end:
            yield _place_of(records[first]), list(records[first:end])
